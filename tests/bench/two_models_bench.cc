// Two models on the same devices, one of them flooded: what the other keeps.
//
//   two_models.share       device time of the quiet model / both, while both always have work (fair: 0.5)
//   two_models.p99_ratio   p99 of the quiet model under its own Poisson load, beside a flooded neighbour / alone;
//                          ..._worst: of the rounds
//
// In process, real CPU devices, lengths as Europarl's. Flooded: 8 * b_max requests in flight, each answered one
// replaced at once. The quiet model's rate is a share (--load) of what it can serve alone, measured first.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/bench/report.h"
#include "tests/bench/traffic.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, hidden, 512, "Units of both LSTMs.");
ABSL_FLAG(std::string, devices, "auto", "As cellbatch-server's --devices.");
ABSL_FLAG(double, seconds, 10, "Length of one measured phase.");
ABSL_FLAG(int, rounds, 10, "Rounds; figures are medians over them, but for the worst.");
ABSL_FLAG(double, load, 0.2, "The quiet model's load, as a share of its capacity alone.");

namespace cellbatch {
namespace {

constexpr int kQuiet = 0, kFlooded = 1;

double QuietP99(BenchServer& server, double rate, bool beside_flood, double seconds) {
  server.traffic(kQuiet).rate = rate;
  server.traffic(kFlooded).in_flight = beside_flood ? 8 * server.b_max(kFlooded) : 0;
  server.Serve(seconds / 4);
  server.Serve(seconds);
  const double p99 = P99(server.traffic(kQuiet).latencies_s);
  server.Drain();
  return p99;
}

double QuietShare(BenchServer& server, double seconds) {
  for (int m = 0; m < 2; ++m)
    server.traffic(m).in_flight = (m == kFlooded ? 8 : 4) * server.b_max(m);
  server.Serve(seconds / 4);
  const int64_t quiet = server.device_ns(kQuiet), flooded = server.device_ns(kFlooded);
  server.Serve(seconds);
  const double q = static_cast<double>(server.device_ns(kQuiet) - quiet);
  const double f = static_cast<double>(server.device_ns(kFlooded) - flooded);
  server.Drain();
  return q / (q + f);
}

int Main() {
  Report report("two_models");
  const Lengths lengths = Lengths::Europarl();
  const double seconds = absl::GetFlag(FLAGS_seconds);
  BenchServer server(absl::GetFlag(FLAGS_devices), lengths);
  for (int m = 0; m < 2; ++m) server.AddModel(absl::GetFlag(FLAGS_hidden));
  const double capacity = server.Capacity(kQuiet, seconds / 2);
  const double rate = absl::GetFlag(FLAGS_load) * capacity;
  report.Fact("quiet model", Number(rate, 1) + " requests/s of " + Number(capacity, 1) +
                                 "; lengths " + lengths.source);
  Table table({"round", "p99 alone ms", "p99 beside the flood ms", "ratio", "share"});
  std::vector<double> ratios, shares;
  for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
    const double alone = QuietP99(server, rate, false, seconds);
    const double beside = QuietP99(server, rate, true, seconds);
    ratios.push_back(beside / alone);
    shares.push_back(QuietShare(server, seconds));
    table.Add({std::to_string(i + 1), Number(alone * 1e3, 2), Number(beside * 1e3, 2),
               Number(ratios.back(), 2), Number(shares.back(), 3)});
  }
  report.Text(table.ToString());
  const Quartiles ratio = QuartilesOf(ratios), share = QuartilesOf(shares);
  report.Figure("two_models.share", share.median, "x", &share);
  report.Figure("two_models.p99_ratio", ratio.median, "x", &ratio);
  report.Figure("two_models.p99_ratio_worst", *std::max_element(ratios.begin(), ratios.end()), "x");
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What one model keeps beside a flooded one.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
