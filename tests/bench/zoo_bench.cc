// The ten workloads of the papers at saturation, in process: requests/s, mean batch, the scheduler's share of the time.
//
//   zoo.WORKLOAD.requests_per_s    answered
//   zoo.WORKLOAD.mean_batch        cells of all types ÷ tasks
//   zoo.WORKLOAD.scheduler_share   1 - device time ÷ time of the thread that schedules and computes (stepped.h)
//
// In precisions other than FP32 (--precisions) WORKLOAD has the precision behind it: zoo.nmt_bf16.requests_per_s.
//
// Models and requests are those of tests/zoo (real data, in an order from the seed): embeddings as wide as the hidden
// state, words folded to 256 as in ED-Batch, outputs at every node, position or word as there; nmt decodes as many
// words as the data's target has. Unfolding, submitting and taking answers happen on a thread of their own, on another
// core where there is one, which takes them as a server's responders do: what waking it costs the scheduler's thread
// counts as scheduling. Warm-up and drain are excluded.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"
#include "scheduler/clock.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/bench/stepped.h"

ABSL_FLAG(std::string, json, "", "Write the figures to this file too.");
ABSL_FLAG(std::string, workloads, "",
          "Which, commas between (default: the ten); childsum is one more.");
ABSL_FLAG(int, h, 256, "Units of every recurrent cell, and width of embeddings.");
ABSL_FLAG(
    std::string, devices, "",
    "One device, as cellbatch-server's --devices names it; empty: the cores of this process, its "
    "threads pinned to them.");
ABSL_FLAG(double, seconds, 5, "Length of one measured round.");
ABSL_FLAG(int, rounds, 3, "Rounds; figures are medians over them.");
ABSL_FLAG(int, in_flight, 0,
          "Requests in flight; 0: eight times b_max of the type with the largest cells.");
ABSL_FLAG(std::string, precisions, "FP32",
          "Of all products, as a configuration says it; several, one after the other, with commas "
          "between: "
          "FP32, FP32_SPLIT, BF16, W8, AUTO.");
ABSL_FLAG(bool, root_only, false, "Ask for OUTPUT alone: the root's, the last position's.");
ABSL_FLAG(uint64_t, seed, 1, "Of the requests' order.");
ABSL_FLAG(std::string, unfold, "", "What models say in unfold { .. }: \"level_rows: ON\".");

namespace cellbatch {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int kFullBatches = 8;

struct Round {
  double requests_per_s = 0, cells_per_s = 0, mean_batch = 0, share = 0, ns_a_cell = 0;
};

// Keeps enough requests submitted that every type finds a full batch, from a thread of its own.
class Clients {
 public:
  Clients(const zoo::Workload& workload, std::shared_ptr<const Model> model, Stepped& stepped,
          int in_flight)
      : workload_(workload),
        model_(std::move(model)),
        stepped_(stepped),
        scheduler_(stepped.scheduler()),
        random_(absl::GetFlag(FLAGS_seed)),
        outputs_(absl::GetFlag(FLAGS_root_only) ? std::vector<std::string>{"OUTPUT"}
                                                : workload.paper_outputs),
        thread_([this, in_flight] { Run(in_flight); }) {}
  ~Clients() {
    stop_ = true;
    thread_.join();
  }
  int64_t answered() const { return answered_; }

 private:
  void Run(int in_flight) {
    stepped_.KeepOff();
    for (int i = 0; i < in_flight; ++i) SubmitOne();
    std::vector<std::unique_ptr<Request>> finished(64);
    while (!stop_) {
      const int n = scheduler_.Take(OutboxId(0), absl::MakeSpan(finished));
      if (n == 0) scheduler_.WaitForFinished(OutboxId(0), absl::Milliseconds(20));
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
        Require(finished[i]->status, "a request");
        finished[i].reset();
        SubmitOne();
      }
      answered_ += n;
    }
  }

  // Whole permutations of the requests: any two runs see the same mix.
  void SubmitOne() {
    if (next_ == order_.size()) {
      order_.resize(workload_.requests.size());
      for (size_t i = 0; i < order_.size(); ++i) order_[i] = i;
      std::shuffle(order_.begin(), order_.end(), random_);
      next_ = 0;
    }
    std::unique_ptr<Request> request = MakeRequest(model_, workload_.requests[order_[next_++]],
                                                   outputs_, scheduler_.max_tasks_in_flight());
    request->times.submitted = SteadyClock().NowNs();
    if (!scheduler_.Submit(request)) Require(absl::InternalError("queue full"), "submitting");
  }

  const zoo::Workload& workload_;
  const std::shared_ptr<const Model> model_;
  const Stepped& stepped_;
  Scheduler& scheduler_;
  std::mt19937_64 random_;
  const std::vector<std::string> outputs_;
  std::vector<size_t> order_;
  size_t next_ = 0;
  std::atomic<int64_t> answered_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;  // last: it uses everything above
};

std::string Devices() {
  if (!absl::GetFlag(FLAGS_devices).empty()) return absl::GetFlag(FLAGS_devices);
  return "cpu:" + CpuListText(AllowedCpus());
}

// Enough that the type whose cells take the device longest finds several full batches.
int InFlight(const std::vector<CellTypeCalibration>& types) {
  if (absl::GetFlag(FLAGS_in_flight) > 0) return absl::GetFlag(FLAGS_in_flight);
  int32_t batch = 1;
  double longest = 0;
  for (const CellTypeCalibration& type : types) {
    for (const CalibrationPoint& p : type.points) {
      const double ns_a_cell = static_cast<double>(p.task_ns) / p.batch;
      if (p.batch != type.max_batch || ns_a_cell <= longest) continue;
      longest = ns_a_cell;
      batch = type.max_batch;
    }
  }
  return std::max(64, kFullBatches * batch);
}

void StepFor(Stepped& stepped, double seconds) {
  for (const double end = Now() + seconds; Now() < end;) {
    if (!stepped.Step()) std::this_thread::yield();
  }
}

// Until as many requests have left as ran at once: then starts and ends are mixed.
void WarmUp(Stepped& stepped, const Clients& clients) {
  constexpr double kMost = 60;
  int64_t most_running = 1;
  for (const double start = Now(); Now() < start + kMost && clients.answered() < most_running;) {
    StepFor(stepped, absl::GetFlag(FLAGS_seconds) / 10);
    const LaneStats lane = stepped.scheduler().stats().Lanes()[0];
    most_running = std::max(most_running, lane.running_requests);
  }
}

Round Measure(Stepped& stepped, const Clients& clients) {
  stepped.Resume();
  const Stepped::Times before = stepped.times();
  const LaneStats from = stepped.scheduler().stats().Lanes()[0];
  const int64_t answered = clients.answered();
  const double start = Now();
  StepFor(stepped, absl::GetFlag(FLAGS_seconds));
  const double took = Now() - start;
  const auto done = static_cast<double>(clients.answered() - answered);
  const Stepped::Times times = stepped.times() - before;
  const LaneStats to = stepped.scheduler().stats().Lanes()[0];
  double tasks = 0, cells = 0;
  for (size_t t = 0; t < to.types.size(); ++t) {
    tasks += static_cast<double>(to.types[t].tasks - from.types[t].tasks);
    cells += static_cast<double>(to.types[t].cells - from.types[t].cells);
  }
  return {done / took, cells / took, cells / tasks, times.share(),
          static_cast<double>(times.scheduling()) / cells};
}

// "leaf 498.1 of 512, internal 480.2 of 512": mean batch so far and b_max of each cell type.
std::string Batches(Scheduler& scheduler, ModelId model) {
  std::string text;
  const auto calibrated = scheduler.Calibration(model);
  const LaneStats lane = scheduler.stats().Lanes()[0];
  for (size_t t = 0; t < lane.types.size(); ++t) {
    const CellTypeStats& type = lane.types[t];
    if (type.tasks == 0) continue;
    text += (text.empty() ? "" : ", ") + type.name + " " +
            Number(static_cast<double>(type.cells) / static_cast<double>(type.tasks), 1);
    for (const CellTypeCalibration& c : calibrated) {
      if (c.type == CellTypeId(static_cast<int32_t>(t))) {
        text += " of " + std::to_string(c.max_batch);
      }
    }
  }
  return text;
}

void Run(const zoo::Workload& workload, const std::string& precision, Report& report,
         Table& table) {
  const std::string name =
      workload.name + (precision == "FP32" ? "" : "_" + absl::AsciiStrToLower(precision));
  const std::shared_ptr<const Model> model = LoadWorkload(
      workload, ModelId(1),
      "unfold { " + absl::GetFlag(FLAGS_unfold) + " }\nprecision: PRECISION_" + precision + "\n");
  report.Fact(name, std::to_string(workload.requests.size()) + " items of " + workload.source +
                        ", in " + Name(model->precision));
  Stepped stepped(SchedulerOptions(), Devices(), model);
  const int in_flight = InFlight(stepped.scheduler().Calibration(model->id));
  Clients clients(workload, model, stepped, in_flight);
  WarmUp(stepped, clients);
  std::vector<double> rates, batches, shares, cells, ns;
  for (int i = 0; i < absl::GetFlag(FLAGS_rounds); ++i) {
    const Round round = Measure(stepped, clients);
    rates.push_back(round.requests_per_s);
    batches.push_back(round.mean_batch);
    shares.push_back(round.share);
    cells.push_back(round.cells_per_s);
    ns.push_back(round.ns_a_cell);
  }
  report.Fact(name + " batches", Batches(stepped.scheduler(), model->id));
  const Quartiles rate = QuartilesOf(rates), batch = QuartilesOf(batches),
                  share = QuartilesOf(shares);
  table.Add({name, std::to_string(in_flight), Number(rate, 1), Number(batch, 1),
             Number(QuartilesOf(cells).median, 0), Number(share.median * 100, 2) + " %",
             Number(QuartilesOf(ns).median, 0)});
  report.Figure("zoo." + name + ".requests_per_s", rate.median, "1/s", &rate);
  report.Figure("zoo." + name + ".mean_batch", batch.median, "cells", &batch);
  report.Figure("zoo." + name + ".scheduler_share", share.median, "x", &share);
}

int Main() {
  Report report("zoo");
  report.Fact("units", std::to_string(absl::GetFlag(FLAGS_h)));
  report.Fact("outputs", absl::GetFlag(FLAGS_root_only) ? "OUTPUT alone" : "as in the papers");
  Table table({"workload", "in flight", "requests/s", "mean batch", "cells/s", "scheduler",
               "its ns a cell"});
  std::vector<std::string> names =
      absl::StrSplit(absl::GetFlag(FLAGS_workloads), ',', absl::SkipEmpty());
  if (names.empty()) names.assign(zoo::WorkloadNames().begin(), zoo::WorkloadNames().end());
  const std::vector<std::string> precisions =
      absl::StrSplit(absl::GetFlag(FLAGS_precisions), ',', absl::SkipEmpty());
  for (const std::string& name : names) {
    const zoo::Workload workload =
        zoo::MakeWorkload(name, zoo::Sizes::Benchmark(absl::GetFlag(FLAGS_h)), 0);
    for (const std::string& precision : precisions) Run(workload, precision, report, table);
  }
  report.Text(table.ToString());
  return report.Finish(absl::GetFlag(FLAGS_json)) ? 0 : 1;
}

}  // namespace
}  // namespace cellbatch

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("The papers' workloads at saturation.");
  absl::ParseCommandLine(argc, argv);
  return cellbatch::Main();
}
