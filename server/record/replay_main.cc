// cellbatch-replay: a schedule that a server recorded is taken again, step by step, by the manager that it had, and
// compared with what was recorded.
//   0  the same, to the last row of the last task (or what was asked is another policy's, and it differs)
//   1  it differs, or the record cannot be read
//   2  bad flags
#include <fmt/format.h>
#include <getopt.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "scheduler/clock.h"
#include "scheduler/record/schedule_replay.h"
#include "server/record/record_codec.h"

namespace cellbatch {
namespace {

constexpr int64_t kMostBytes = int64_t{16} << 30;
constexpr char kHelp[] =
    "Takes the schedule that cellbatch-server --record wrote again, and says whether it is the "
    "same.\n\n"
    "  cellbatch-replay server.record\n\n"
    "  --policy KIND     Of all models, instead of theirs: cellular, agenda, agenda_of_remaining,\n"
    "                    depth, lb_greedy, random. It says where the schedule first differs.\n";

enum Flag { kPolicy = 1, kAsk };

constexpr option kFlags[] = {
    {"policy", required_argument, nullptr, kPolicy}, {"help", no_argument, nullptr, kAsk}, {}};

int64_t Quantile(std::vector<int64_t>& values, double q) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

double Ms(int64_t ns) { return static_cast<double>(ns) / 1e6; }

void PrintTimes(const char* what, std::vector<int64_t> ns) {
  fmt::print("{:<10} p50 {:.3f} ms, p99 {:.3f} ms\n", what, Ms(Quantile(ns, 0.5)),
             Ms(Quantile(ns, 0.99)));
}

const char* HowItEnded(RecordEnd end) {
  switch (end) {
    case RecordEnd::kTruncated:
      return "not closed: the server did not end in order";
    case RecordEnd::kClosed:
      return "closed";
    case RecordEnd::kFull:
      return "full (--record-limit)";
  }
  return "?";
}

void Print(const RecordedRun& run, const ScheduleReport& report) {
  fmt::print("record     {} models, {} requests, {} words of schedule, {}\n", run.lanes.size(),
             run.requests.size(), run.tape.size(), HowItEnded(run.end));
  if (run.lost_requests > 0) fmt::print("lost       shapes of {} requests\n", run.lost_requests);
  const double seconds = static_cast<double>(report.step_ns) / 1e9;
  fmt::print("schedule   {} steps, {} batches, {} cells, mean fill {:.2f}\n", report.steps,
             report.tasks, report.nodes, report.mean_fill());
  fmt::print("decisions  {:.0f} batches/s, {:.1f} ns a cell, in the manager\n",
             seconds > 0 ? static_cast<double>(report.tasks) / seconds : 0,
             static_cast<double>(report.step_ns) /
                 static_cast<double>(std::max<int64_t>(report.nodes, 1)));
  std::vector<int64_t> queue, compute, both;
  for (const ReplayedAnswer& answer : report.answers) {
    if (answer.compute_ns == 0) continue;
    queue.push_back(answer.queue_ns);
    compute.push_back(answer.compute_ns);
    both.push_back(answer.queue_ns + answer.compute_ns);
  }
  fmt::print("requests   {} answered, {} of them ran\n", report.answers.size(), both.size());
  PrintTimes("latency", both);
  PrintTimes("queue", queue);
  PrintTimes("compute", compute);
  fmt::print("hash       {:016x} recorded, {:016x} replayed\n", report.recorded_hash,
             report.replayed_hash);
  if (!report.ends_early.empty()) fmt::print("ends early {}\n", report.ends_early);
  fmt::print("{}\n", report.same() ? "same       every task, every row"
                                   : "differs    " + report.difference);
}

int Main(int argc, char** argv) {
  ReplayOptions options;
  for (int flag; (flag = getopt_long(argc, argv, "", kFlags, nullptr)) != -1;) {
    if (flag == kAsk) {
      fmt::print("{}", kHelp);
      return 0;
    }
    if (flag == '?') return 2;  // getopt has said what
    const std::optional<PolicyKind> kind = PolicyKindOf(optarg);
    if (!kind || *kind == PolicyKind::kFsm || *kind == PolicyKind::kSufficient) {
      fmt::print(stderr, "cellbatch-replay: --policy {} is none of those that --help lists\n",
                 optarg);
      return 2;
    }
    options.policy.emplace().kind = *kind;
  }
  if (optind + 1 != argc) {
    fmt::print(stderr, "{}", kHelp);
    return 2;
  }
  const absl::StatusOr<RecordedRun> run = ReadRecord(argv[optind], kMostBytes);
  if (!run.ok()) {
    fmt::print(stderr, "cellbatch-replay: {}\n", std::string(run.status().message()));
    return 1;
  }
  const SteadyClock clock;
  const absl::StatusOr<ScheduleReport> report = ReplaySchedule(*run, options, clock);
  if (!report.ok()) {
    fmt::print(stderr, "cellbatch-replay: {}: {}\n", argv[optind],
               std::string(report.status().message()));
    return 1;
  }
  Print(*run, *report);
  return report->same() || options.policy ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) { return cellbatch::Main(argc, argv); }
