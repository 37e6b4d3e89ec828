// A million random requests through the real scheduler on simulated devices in virtual time, every invariant checked.
//
//   simulation [--requests=1000000] [--requests-of-a-seed=2000] [--first-seed=1] [--seed=N] [--json=FILE]
//
// Then as many of one scheduler that lives long: simulation.heap_growth_bytes is what its heap grew by between a fifth of
// them and nine tenths, and simulation.heap_left_bytes what all seeds after the first tenth of them left behind.
//
// --seed runs that one seed and says what it drew: how to look into a failure of tests/simulation. Exit status 1 if
// anything was violated, or the heap grew by more than what is in flight.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/bench/report.h"
#include "tests/simulation/simulation.h"

namespace cellbatch {
namespace {

struct Arguments {
  int64_t requests = 1'000'000, requests_of_a_seed = 2000, first_seed = 1, seed = 0;
  std::string json;
};

bool Parse(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(equals + 1);
    if (name == "--json") {
      arguments.json = value;
      continue;
    }
    int64_t* const number = name == "--requests"             ? &arguments.requests
                            : name == "--requests-of-a-seed" ? &arguments.requests_of_a_seed
                            : name == "--first-seed"         ? &arguments.first_seed
                            : name == "--seed"               ? &arguments.seed
                                                             : nullptr;
    if (number == nullptr) return false;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), *number);
    if (read.ec != std::errc() || read.ptr != value.data() + value.size() || *number < 1) {
      return false;
    }
  }
  return true;
}

class Totals {
 public:
  // Says what the seed drew and did, if asked or if it violated anything.
  sim::SimulationReport Run(const sim::SimulationOptions& options, bool aloud) {
    sim::SimulationReport report = sim::Simulate(options);
    if (aloud || report.violation_count > 0) {
      std::printf("%s\n  %ld steps, %ld tasks, %ld ok, %ld cancelled, %ld expired, %ld failed\n",
                  sim::Describe(options).c_str(), report.steps, report.tally.tasks, report.tally.ok,
                  report.tally.cancelled, report.tally.expired, report.tally.failed);
      std::printf("  %ld loads (%ld not, for want of a device), %ld unloads, %ld warm-up tasks\n",
                  report.loads, report.failed_loads, report.unloads, report.tally.warm_tasks);
      std::printf(
          "  longest waits: type %ld tasks, subgraph %ld of its type, model %ld ns (%.2f of its "
          "share); "
          "%ld priorities compared\n",
          report.longest.type_tasks, report.longest.subgraph_tasks, report.longest.model_ns,
          report.longest.shares_apart, report.longest.priorities_compared);
    }
    for (const std::string& v : report.violations) std::printf("  violated: %s\n", v.c_str());
    submitted += report.submitted;
    violations += report.violation_count;
    nodes += report.tally.nodes;
    tasks += report.tally.tasks;
    left_early += report.tally.cancelled + report.tally.expired;
    failed += report.tally.failed;
    hung += report.hung;
    return report;
  }
  int64_t submitted = 0, violations = 0, nodes = 0, tasks = 0, left_early = 0, failed = 0;
  int64_t hung = 0;
};

// Of a process that has run a tenth of the seeds, and so made whatever is made once.
class HeapLeft {
 public:
  void After(int64_t submitted, int64_t requests) {
    if (submitted * 10 < requests) return;
    const int64_t now = sim::HeapInUse();
    if (!first_) first_ = now;
    left_ = now - *first_;
  }
  int64_t bytes() const { return left_; }

 private:
  std::optional<int64_t> first_;
  int64_t left_ = 0;
};

// The figures of one scheduler that had so many requests. False: its heap grew, or something was violated.
bool RunLongLived(int64_t requests, Report& report) {
  Totals totals;
  const sim::SimulationReport lived = totals.Run(sim::LongLivedOptions(requests), false);
  const std::optional<int64_t> growth = sim::HeapGrowthBytes(lived);
  report.Text(absl::StrCat(lived.submitted, " requests of one scheduler; ", lived.loads,
                           " loads, heap in use by tenth: ", absl::StrJoin(lived.heap_bytes, " "),
                           "\n"));
  if (!growth || totals.violations > 0) return false;
  report.Figure("simulation.heap_growth_bytes", static_cast<double>(*growth), "bytes");
  return *growth <= sim::kHeapNoiseBytes;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, arguments)) {
    std::fprintf(stderr,
                 "simulation [--requests=N] [--requests-of-a-seed=N] [--first-seed=N] [--seed=N] "
                 "[--json=FILE]\n");
    return 2;
  }
  Totals totals;
  if (arguments.seed > 0) {
    totals.Run(sim::WithUnfolding(sim::RandomOptions(static_cast<uint64_t>(arguments.seed),
                                                     arguments.requests_of_a_seed)),
               true);
    return totals.violations == 0 ? 0 : 1;
  }
  Report report("simulation");
  const std::clock_t start = std::clock();
  HeapLeft left;
  int64_t seeds = 0;
  for (; totals.submitted < arguments.requests; ++seeds) {
    const auto seed = static_cast<uint64_t>(arguments.first_seed + seeds);
    totals.Run(sim::WithUnfolding(sim::RandomOptions(seed, arguments.requests_of_a_seed)), false);
    left.After(totals.submitted, arguments.requests);
  }
  const double cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  report.Text(absl::StrCat(seeds, " seeds from ", arguments.first_seed, "; ", totals.tasks,
                           " tasks, ", totals.nodes, " nodes, ", totals.left_early,
                           " requests cancelled or expired, ", totals.failed, " lost a device; ",
                           totals.hung, " devices hung\n"));
  report.Figure("simulation.requests", static_cast<double>(totals.submitted), "requests");
  report.Figure("simulation.violations", static_cast<double>(totals.violations), "violations");
  report.Figure("simulation.requests_per_cpu_s",
                static_cast<double>(totals.submitted) / cpu_seconds, "requests/s");
  report.Figure("simulation.heap_left_bytes", static_cast<double>(left.bytes()), "bytes");
  const bool flat =
      RunLongLived(arguments.requests, report) && left.bytes() <= sim::kHeapNoiseBytes;
  return report.Finish(arguments.json) && flat && totals.violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
