// A million random requests through the real scheduler on simulated devices in virtual time, every invariant checked.
//
//   simulation [--requests=1000000] [--requests-of-a-seed=2000] [--first-seed=1] [--seed=N] [--json=FILE]
//
// --seed runs that one seed and says what it drew: how to look into a failure of tests/simulation. Exit status 1 if
// anything was violated.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
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
  void Run(uint64_t seed, int64_t requests, bool aloud) {
    const sim::SimulationOptions options = sim::RandomOptions(seed, requests);
    const sim::SimulationReport report = sim::Simulate(options);
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
    ++seeds;
  }
  int64_t submitted = 0, violations = 0, nodes = 0, tasks = 0, left_early = 0, failed = 0;
  int64_t seeds = 0;
};

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
    totals.Run(static_cast<uint64_t>(arguments.seed), arguments.requests_of_a_seed, true);
    return totals.violations == 0 ? 0 : 1;
  }
  Report report("simulation");
  const std::clock_t start = std::clock();
  for (int64_t seed = arguments.first_seed; totals.submitted < arguments.requests; ++seed) {
    totals.Run(static_cast<uint64_t>(seed), arguments.requests_of_a_seed, false);
  }
  const double cpu_seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  report.Text(absl::StrCat(totals.seeds, " seeds from ", arguments.first_seed, "; ", totals.tasks,
                           " tasks, ", totals.nodes, " nodes, ", totals.left_early,
                           " requests cancelled or expired, ", totals.failed, " lost a device\n"));
  report.Figure("simulation.requests", static_cast<double>(totals.submitted), "requests");
  report.Figure("simulation.violations", static_cast<double>(totals.violations), "violations");
  report.Figure("simulation.requests_per_cpu_s",
                static_cast<double>(totals.submitted) / cpu_seconds, "requests/s");
  return report.Finish(arguments.json) && totals.violations == 0 ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
