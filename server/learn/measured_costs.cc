#include "server/learn/measured_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_device.h"
#include "cells/device/open_devices.h"
#include "scheduler/clock.h"
#include "scheduler/doorbell.h"
#include "scheduler/scheduler.h"

namespace cellbatch {
namespace {

constexpr int kInFlight = 64;
constexpr int64_t kWarmNs = 200'000'000, kWindowNs = 120'000'000, kDrainNs = 60'000'000'000;
constexpr int kWindows = 9;
constexpr int kWakes = 31;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// All that was counted up to some moment.
struct Seen {
  int64_t at_ns = 0, busy_ns = 0;
  std::vector<CellTypeStats> types;
};

// Serves a closed loop on the scheduler's own threads; this one submits and takes.
class Rehearsal {
 public:
  Rehearsal(Scheduler& scheduler, std::shared_ptr<const Model> model, const MakeGraph& make,
            int32_t shapes)
      : scheduler_(scheduler), model_(std::move(model)) {
    for (int i = 0; i < kInFlight; ++i) {
      auto request = std::make_unique<Request>();
      request->model = model_;
      request->graph = make(i % shapes, scheduler.max_tasks_in_flight());
      Submit(std::move(request));
    }
  }

  // Of some windows the median: what else ran on the machine for a moment is in few of them.
  void Run(MeasuredCosts& costs) {
    RunFor(kWarmNs, /*replace=*/true);
    std::vector<std::vector<int64_t>> served(model_->types.size());  // in millionths, by window
    std::vector<int64_t> overhead_ns;
    for (int w = 0; w < kWindows; ++w) {
      const Seen before = Look();
      RunFor(kWindowNs, /*replace=*/true);
      const Seen after = Look();
      int64_t tasks = 0;
      for (size_t t = 0; t < served.size(); ++t) {
        tasks += static_cast<int64_t>(after.types[t].tasks - before.types[t].tasks);
        const double times = TimesAsLong(costs.alone, t, before.types[t], after.types[t]);
        if (times > 0) served[t].push_back(std::llround(times * 1e6));
      }
      const int64_t idle_ns = (after.at_ns - before.at_ns) - (after.busy_ns - before.busy_ns);
      if (tasks > 0) overhead_ns.push_back(std::max<int64_t>(idle_ns / tasks, 0));
    }
    RunFor(kDrainNs, /*replace=*/false);
    for (std::vector<int64_t>& of_type : served) {
      const int64_t median = QuantileOf(std::move(of_type), 0.5);
      costs.served.push_back(median == 0 ? 1 : static_cast<double>(median) * 1e-6);
    }
    // Several devices are fed ahead of time: theirs is hidden.
    if (scheduler_.stats().Devices().size() > 1) overhead_ns.clear();
    costs.task_overhead_ns = QuantileOf(std::move(overhead_ns), 0.5);
    costs.answer_ns = std::max<int64_t>(QuantileOf(std::move(lay_ns_), 0.5), 0);
  }

 private:
  Seen Look() const {
    Seen seen;
    seen.at_ns = clock_.NowNs();
    for (const DeviceStats& device : scheduler_.stats().Devices()) seen.busy_ns += device.busy_ns;
    for (LaneStats& lane : scheduler_.stats().Lanes()) {
      if (lane.model == model_->id) seen.types = std::move(lane.types);
    }
    return seen;
  }

  // 0: there were none.
  static double TimesAsLong(const TaskCosts& alone, size_t type, const CellTypeStats& before,
                            const CellTypeStats& after) {
    const HistogramCounts sizes = after.batch_size - before.batch_size;
    const HistogramCounts times = after.task_ns - before.task_ns;
    double expected = 0;
    for (int b = 0; b < kHistogramBuckets; ++b) {
      const uint64_t count = sizes.buckets[Index(b)];
      if (count == 0) continue;
      const int64_t middle = (BucketLow(b) + BucketLow(b + 1) - 1) / 2;
      expected += static_cast<double>(count) *
                  static_cast<double>(alone.Ns(CellTypeId(static_cast<int64_t>(type)),
                                               static_cast<int32_t>(middle)));
    }
    return expected > 0 ? static_cast<double>(times.sum) / expected : 0;
  }

  void Submit(std::unique_ptr<Request> request) {
    request->times.submitted = clock_.NowNs();
    Check(scheduler_.Submit(request).has_value(), "a rehearsal's scheduler is full");
    ++out_;
  }

  void RunFor(int64_t ns, bool replace) {
    const int64_t until = clock_.NowNs() + ns;
    std::array<std::unique_ptr<Request>, kInFlight> some;
    while (clock_.NowNs() < until && out_ > 0) {
      const int n = scheduler_.Take(OutboxId(0), absl::MakeSpan(some));
      out_ -= n;
      for (int i = 0; i < n; ++i) {
        if (replace) lay_ns_.push_back(clock_.NowNs() - some[Index(i)]->times.last_task_end);
        Check(some[Index(i)]->status.ok(), some[Index(i)]->status.ToString());
        if (replace) Submit(std::move(some[Index(i)]));
      }
      if (n == 0) scheduler_.WaitForFinished(OutboxId(0), absl::Milliseconds(10));
    }
  }

  Scheduler& scheduler_;
  const std::shared_ptr<const Model> model_;
  const SteadyClock clock_;
  std::vector<int64_t> lay_ns_;  // of answers, before they were taken
  int out_ = 0;
};

// From a ring to a thread that slept on that bell; the median.
int64_t WakeNs() {
  const SteadyClock clock;
  std::vector<int64_t> took;
  for (int i = 0; i < kWakes; ++i) {
    Doorbell bell;
    int64_t awake_ns = 0;
    bell.Prepare(Doorbell::Sleep::kForAnything);
    std::thread sleeper([&] {
      bell.Wait(-1);
      awake_ns = clock.NowNs();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const int64_t rung_ns = clock.NowNs();
    bell.Ring();
    sleeper.join();
    took.push_back(awake_ns - rung_ns);
  }
  return std::max<int64_t>(QuantileOf(std::move(took), 0.5), 0);
}

}  // namespace

absl::StatusOr<MeasuredCosts> MeasureCosts(const std::string& devices,
                                           std::shared_ptr<const Model> model,
                                           const MakeGraph& make, int32_t shapes) {
  OpenOptions open;
  MeasureCpu(open.cpu);
  auto made = OpenDevices(devices, open);
  if (!made.ok()) return made.status();
  const SteadyClock clock;
  auto scheduler = Scheduler::Create(SchedulerOptions(), std::move(made->set), clock);
  if (!scheduler.ok()) return scheduler.status();
  if (absl::Status s = (*scheduler)->AddModel(model, nullptr); !s.ok()) return s;
  MeasuredCosts costs;
  const std::vector<CellTypeCalibration> measured = (*scheduler)->Calibration(model->id);
  auto alone = TaskCosts::Of(measured, measured.empty() ? 0 : measured.front().memory, *model);
  if (!alone.ok()) return alone.status();
  costs.alone = *std::move(alone);
  std::string names;
  for (const DeviceStats& device : (*scheduler)->stats().Devices()) {
    names += (names.empty() ? "" : " ") + device.name;
  }
  costs.origin = "measured on " + names;
  Rehearsal(**scheduler, model, make, shapes).Run(costs);
  costs.wake_ns = WakeNs();
  (*scheduler)->Stop();
  return costs;
}

}  // namespace cellbatch
