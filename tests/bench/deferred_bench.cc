// What nothing recurrent reads, computed later: projections out of cells, and heads that wait for their batches to fill.
//
//   deferred.lstm_hH_nN_bB.speedup    time of B requests of 24 vectors each, all at once, until the last is answered, of an
//                                     LSTM that leaves N columns of a projection at each step, all of them asked for:
//                                     defer OFF / defer ON
//   deferred.lstm_hH_nN_bB.last       the same where only the last step's are
//   deferred.WORKLOAD.speedup         answers/s in a closed loop of --in_flight requests: defer ON / OFF
//   deferred.WORKLOAD.{p50,p99}_LOAD  latency at LOAD % of what OFF answers there: ON / OFF, median of the rounds' ratios
//
// The first two in process, on one core, both sides in turns, medians of rounds. The others through the real server and
// gRPC, the same model twice in one server (served_policies.h), by --policy.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/bench/deferred_cells.h"
#include "tests/bench/report.h"
#include "tests/bench/served_policies.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(int, h, 1024, "Units of the projected LSTM.");
ABSL_FLAG(std::string, columns, "1024,4096", "Of its projection; commas between. Empty: not run.");
ABSL_FLAG(std::string, workloads, "treelstm,bilstm_tagger,latticelstm",
          "Of the zoo, served; commas between. Empty: none.");
ABSL_FLAG(int, served_h, 512, "Units of those.");
ABSL_FLAG(std::string, policy, "CELLULAR", "That decides beside what waits.");
ABSL_FLAG(double, seconds, 4, "Of each run of those.");
ABSL_FLAG(int, rounds, 5, "Of each side of a ratio.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");
ABSL_FLAG(std::string, devices, "auto", "cellbatch-server's --devices.");

namespace cellbatch {
namespace {

constexpr int kLoads[] = {30, 60};
constexpr size_t kP50 = 0, kP99 = 2;  // of kTails

std::vector<std::string> Listed(const std::string& flag) {
  if (flag.empty()) return {};
  return absl::StrSplit(flag, ',');
}

// On / off of each round, where both were VALID.
std::optional<double> RatioOf(const Rounds& on, const Rounds& off, size_t tail) {
  std::vector<std::optional<double>> ratios = on.Ms(tail);
  const std::vector<std::optional<double>> base = off.Ms(tail);
  for (size_t r = 0; r < ratios.size(); ++r) {
    if (ratios[r] && base[r]) {
      *ratios[r] /= *base[r];
    } else {
      ratios[r].reset();
    }
  }
  return Rounds::MedianOf(ratios);
}

void MeasureServed(const std::string& workload, Report& report) {
  const std::string policy = absl::StrCat("policy { kind: ", absl::GetFlag(FLAGS_policy), " } ");
  const std::vector<Rival> rivals = {{"off", policy + "defer: OFF"}, {"on", policy + "defer: ON"}};
  const ServedPolicies served(workload, absl::GetFlag(FLAGS_served_h), rivals,
                              absl::GetFlag(FLAGS_devices), /*seed=*/1, report);
  const std::unique_ptr<Workload> off = served.Load("off"), on = served.Load("on");
  const double seconds = absl::GetFlag(FLAGS_seconds);
  const int rounds = absl::GetFlag(FLAGS_rounds);
  std::vector<double> without, with, speedup;
  for (int round = 0; round < rounds; ++round) {
    without.push_back(served.PerSecond(*off, absl::GetFlag(FLAGS_in_flight), seconds));
    with.push_back(served.PerSecond(*on, absl::GetFlag(FLAGS_in_flight), seconds));
    speedup.push_back(with.back() / without.back());
  }
  const Quartiles gain = QuartilesOf(speedup);
  report.Figure(absl::StrCat("deferred.", workload, ".speedup"), gain.median, "x", &gain);
  Table table({workload, "off", "on", "on / off"});
  table.Add({"requests/s", Number(QuartilesOf(without), 1), Number(QuartilesOf(with), 1),
             Number(gain, 2)});
  for (const int load : kLoads) {
    Rounds at_off, at_on;
    for (int round = 0; round < rounds; ++round) {
      const double rate = QuartilesOf(without).median * load / 100;
      at_off.Add(served.RunAt(*off, rate, seconds));
      at_on.Add(served.RunAt(*on, rate, seconds));
    }
    for (const auto& [tail, name] : {std::pair(kP50, "p50"), std::pair(kP99, "p99")}) {
      const std::optional<double> ratio = RatioOf(at_on, at_off, tail);
      table.Add({absl::StrCat(name, " ms at ", load, " %"), at_off.Told(tail), at_on.Told(tail),
                 ratio ? Number(*ratio, 2) : "-"});
      if (ratio)
        report.Figure(absl::StrCat("deferred.", workload, ".", name, "_", load), *ratio, "x");
    }
  }
  report.Text(
      absl::StrCat("\n", table.ToString(), "!: not VALID, no figure; +: the server fell behind\n"));
}

int Main() {
  Report report("deferred");
  DeferredSizes sizes;
  sizes.h = absl::GetFlag(FLAGS_h);
  sizes.rounds = absl::GetFlag(FLAGS_rounds);
  for (const std::string& text : Listed(absl::GetFlag(FLAGS_columns))) {
    int64_t n = 0;
    if (absl::SimpleAtoi(text, &n)) sizes.columns.push_back(n);
  }
  // Before the first, which keeps its thread on one core: the server's and the client's go where they like.
  GoToRunfiles();
  for (const std::string& workload : Listed(absl::GetFlag(FLAGS_workloads))) {
    MeasureServed(workload, report);
  }
  if (!sizes.columns.empty()) MeasureProjections(sizes, report);
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What nothing recurrent reads, computed later.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
