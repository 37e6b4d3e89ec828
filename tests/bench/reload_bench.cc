// A model loads beside one that serves: what the neighbour's users notice.
//
//   reload.p99_ratio          p99 of the neighbour under its Poisson load, of what arrived while a model was loaded,
//                             warmed and opened / in as long a time before
//   reload.throughput_ratio   the neighbour's requests/s in a flood, the same way
//
// In process, real CPU devices, lengths as Europarl's. In each round and phase the same model (an LSTM of --loaded
// units) is loaded anew on a thread of its own, as a server's control thread does it, and unloaded before the next.
// Between two phases everything drains. The neighbour's rate is a share (--load) of its capacity, measured first.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "tests/bench/report.h"
#include "tests/bench/traffic.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, hidden, 512, "Units of the LSTM that serves.");
ABSL_FLAG(int, loaded, 1024, "Units of the LSTM that is loaded.");
ABSL_FLAG(std::string, devices, "auto", "As cellbatch-server's --devices.");
ABSL_FLAG(int, rounds, 10, "Rounds; figures are medians over them.");
ABSL_FLAG(double, load, 0.3, "The neighbour's load, as a share of its capacity alone.");

namespace cellbatch {
namespace {

constexpr int kNeighbour = 0, kLoadedId = 100;
constexpr double kForEver = 600, kCapacitySeconds = 4, kWarmSeconds = 0.5;

// The neighbour's traffic while a model loads: returns how long that took.
double ServeWhileLoading(BenchServer& server) {
  std::atomic<bool> open = false;
  std::thread control([&] {
    server.Load(absl::GetFlag(FLAGS_loaded), kLoadedId);
    open = true;
  });
  const double took = server.Serve(kForEver, [&] { return open.load(); });
  control.join();
  return took;
}

struct Phase {
  double p99_s = 0, requests_per_s = 0;
};

// What the neighbour did since Serve began; what is still out is waited for, its latency counts.
Phase Measured(BenchServer& server, double took) {
  Traffic& t = server.traffic(kNeighbour);
  Phase phase;
  phase.requests_per_s = static_cast<double>(t.answered) / took;
  server.Drain();
  phase.p99_s = P99(t.latencies_s);
  return phase;
}

struct Round {
  double loading_s = 0;
  Phase before, during;
};

Round Measure(BenchServer& server, double rate, int in_flight) {
  const auto begin = [&] {
    server.traffic(kNeighbour).rate = rate;
    server.traffic(kNeighbour).in_flight = in_flight;
    server.Serve(kWarmSeconds);
  };
  Round round;
  begin();
  round.loading_s = ServeWhileLoading(server);
  round.during = Measured(server, round.loading_s);
  server.Unload(kLoadedId);
  begin();
  round.before = Measured(server, server.Serve(round.loading_s));
  return round;
}

int Main() {
  Report report("reload");
  BenchServer server(absl::GetFlag(FLAGS_devices), Lengths::Europarl());
  server.AddModel(absl::GetFlag(FLAGS_hidden));
  const double capacity = server.Capacity(kNeighbour, kCapacitySeconds);
  const double rate = absl::GetFlag(FLAGS_load) * capacity;
  report.Fact("neighbour", Number(rate, 1) + " requests/s of " + Number(capacity, 1));
  Table table({"round", "loading s", "p99 before ms", "p99 during ms", "ratio", "requests/s before",
               "requests/s during", "ratio"});
  std::vector<double> p99s, rates;
  for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
    const Round slow = Measure(server, rate, 0);
    const Round flood = Measure(server, 0, 4 * server.b_max(kNeighbour));
    p99s.push_back(slow.during.p99_s / slow.before.p99_s);
    rates.push_back(flood.during.requests_per_s / flood.before.requests_per_s);
    table.Add({std::to_string(i + 1), Number(slow.loading_s, 2), Number(slow.before.p99_s * 1e3, 2),
               Number(slow.during.p99_s * 1e3, 2), Number(p99s.back(), 2),
               Number(flood.before.requests_per_s, 1), Number(flood.during.requests_per_s, 1),
               Number(rates.back(), 3)});
  }
  report.Text(table.ToString());
  const Quartiles p99 = QuartilesOf(p99s), throughput = QuartilesOf(rates);
  report.Figure("reload.p99_ratio", p99.median, "x", &p99);
  report.Figure("reload.throughput_ratio", throughput.median, "x", &throughput);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What a neighbour notices of a model that loads.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
