// What a server answers in time when it is asked for 1.5, 3 and 10 times what it can compute, over gRPC.
//
//   overload.capacity           answers/s in a closed loop of --in_flight requests, without a deadline
//   overload.goodput_1_5x       answers/s that came within --deadline of when they were due, by that capacity; requests
//   overload.goodput_3x         arrive as a Poisson process at 1.5, 3 and 10 times the capacity for --seconds each,
//   overload.goodput_10x        after a quarter of that to get there
//   overload.p99_NAME           ms, of all who were not refused, from when they were due until they were answered or gave
//                               up: below the deadline, if what is accepted is answered in time
//   overload.late_NAME          of them, how many had no answer in time, %
//   overload.memory_growth      MiB by which the server's peak is higher after all of it than after the closed loop
//
// One LSTM of --h units, requests of --length steps each, so that nobody's answer counts for more than another's; a
// step of it is far dearer than a call, and 10 times the capacity (of 96 steps) is what one core can ask for: of 24 it was
// 11,600 calls a second, which took the generator all of its core. The device has the first core; this program is kept on the last one, where the
// server's other threads may run, too. A run whose generator was late itself gives no figure, and the report says so.
//
// A look: --seconds=10 --h=512
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "tests/bench/report.h"
#include "tests/bench/served_policies.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(uint64_t, seed, 1, "Of the requests and of their arrivals.");
ABSL_FLAG(int, h, 1024, "Units of the LSTM.");
ABSL_FLAG(int, length, 96, "Steps of each request.");
ABSL_FLAG(double, deadline, 4, "Seconds that a client waits.");
ABSL_FLAG(double, seconds, 60, "At each of the three rates.");
ABSL_FLAG(int, in_flight, 256, "Requests of the closed loop.");

namespace cellbatch {
namespace {

struct Load {
  const char* name;
  double times;
};
constexpr std::array<Load, 3> kLoads = {{{"1_5x", 1.5}, {"3x", 3}, {"10x", 10}}};
constexpr size_t kP99 = 2;  // of kTails
constexpr double kMiB = 1 << 20;

// This thread, and those that it starts from now on.
void KeepToLastCore() {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::thread::hardware_concurrency() - 1, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

// Of all who were not refused: from when they were due until they were answered, or given up; sorted.
struct Accepted {
  std::vector<int64_t> times_ns;
  int64_t in_time = 0;
};
Accepted AcceptedOf(const RunResult& run, double deadline_s) {
  Accepted accepted;
  for (size_t i = run.samples->first_measured(); i < run.samples->size(); ++i) {
    const Samples::Record r = run.samples->at(i);
    if (r.outcome != SampleOutcome::kCompleted && r.outcome != SampleOutcome::kFailed &&
        r.outcome != SampleOutcome::kUnanswered) {
      continue;
    }
    const int64_t took = r.done - r.intended;
    accepted.times_ns.push_back(took);
    if (r.outcome == SampleOutcome::kCompleted && static_cast<double>(took) <= deadline_s * 1e9) {
      ++accepted.in_time;
    }
  }
  std::sort(accepted.times_ns.begin(), accepted.times_ns.end());
  return accepted;
}

// Who is refused is not answered, and whose deadline passes has failed: neither is the generator's fault.
bool GeneratorKeptUp(const RunResult& run) {
  return run.summary.send_lag_p99 <= VerdictLimits().most_send_lag_p99_ns &&
         run.summary.sent == run.summary.offered && run.summary.lost == 0;
}

void Measure(const ServedPolicies& served, const Workload& work, const Load& load, double capacity,
             Report& report, Table& table) {
  const double deadline = absl::GetFlag(FLAGS_deadline);
  const auto timeout = std::chrono::nanoseconds(static_cast<int64_t>(deadline * 1e9));
  const RunResult run =
      served.RunAt(work, load.times * capacity, absl::GetFlag(FLAGS_seconds), timeout);
  const Summary& all = run.summary;
  const Accepted accepted = AcceptedOf(run, deadline);
  const auto number = static_cast<int64_t>(accepted.times_ns.size());
  if (number < ValuesNeeded(kTails[kP99])) {
    report.Text(absl::StrCat(load.name, ": only ", number, " were accepted\n"));
    return;
  }
  const double in_time = static_cast<double>(accepted.in_time) / all.seconds;
  const double goodput = in_time / capacity;
  const double late =
      100 * static_cast<double>(number - accepted.in_time) / static_cast<double>(number);
  const double p99_ms = static_cast<double>(PercentileOf(accepted.times_ns, kTails[kP99])) * 1e-6;
  const bool kept_up = GeneratorKeptUp(run);
  table.Add({load.name, Number(all.offered_per_second, 1), std::to_string(all.rejected),
             std::to_string(number), Number(in_time, 1), Number(goodput, 3), Number(p99_ms, 1),
             Number(late, 2), Number(static_cast<double>(all.send_lag_p99) * 1e-6, 2),
             kept_up ? "yes" : "NO"});
  if (!kept_up) return;
  const std::string name = load.name;
  report.Figure("overload.goodput_" + name, goodput, "x");
  report.Figure("overload.p99_" + name, p99_ms, "ms");
  report.Figure("overload.late_" + name, late, "%");
}

int Main() {
  Report report("overload");
  GoToRunfiles();
  const ServedPolicies served("lstm", absl::GetFlag(FLAGS_h), {CellularRival()}, "cpu:0",
                              absl::GetFlag(FLAGS_seed), report);
  KeepToLastCore();
  const std::unique_ptr<Workload> work = served.Load("cellular", absl::GetFlag(FLAGS_length));
  const double capacity =
      served.PerSecond(*work, absl::GetFlag(FLAGS_in_flight), absl::GetFlag(FLAGS_seconds) / 3);
  report.Figure("overload.capacity", capacity, "1/s");
  const auto before = static_cast<double>(served.PeakResidentBytes());
  Table table({"load", "offered/s", "in time/s", "refused", "failed", "goodput", "p99 ms", "late %",
               "send lag p99 ms", "kept up"});
  for (const Load& load : kLoads) Measure(served, *work, load, capacity, report, table);
  report.Text("\n" + table.ToString());
  const double growth = static_cast<double>(served.PeakResidentBytes()) - before;
  report.Figure("overload.memory_growth", growth / kMiB, "MiB");
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Answers in time beyond a server's capacity.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
