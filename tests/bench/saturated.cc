#include "tests/bench/saturated.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace cellbatch {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Saturation::Saturation(DeviceSet devices, std::shared_ptr<const Model> model,
                       const Lengths& lengths, uint64_t seed)
    : model_(std::move(model)),
      lengths_(lengths),
      stream_(lengths_, seed),
      requests_(model_, *std::max_element(lengths_.values.begin(), lengths_.values.end()), seed) {
  scheduler_ =
      Require(Scheduler::Create(SchedulerOptions(), std::move(devices), clock_), "scheduler");
  num_devices_ = static_cast<int>(scheduler_->stats().Devices().size());
  Require(scheduler_->AddModel(model_, nullptr), "adding " + model_->name);
  for (const CellTypeCalibration& c : scheduler_->Calibration(model_->id)) {
    b_max_ = c.max_batch;
    b_peak_ = c.peak_batch;
  }
}

Saturation::~Saturation() { scheduler_->Stop(); }

int Saturation::in_flight() const { return std::max(4 * b_peak_ * num_devices_, 64); }

SaturatedRound Saturation::Measure(double seconds) {
  SaturatedRound round;
  int submitted = 0;
  for (; submitted < in_flight(); ++submitted) SubmitOne();
  Serve(Now() + seconds / 3, round);  // until the mix of starts and ends is steady
  const std::vector<LaneStats> before = scheduler_->stats().Lanes();
  round = SaturatedRound{};
  const double start = Now();
  const int64_t done = Serve(start + seconds, round);
  const double took = Now() - start;
  const std::vector<LaneStats> after = scheduler_->stats().Lanes();
  const double tasks = static_cast<double>(after[0].types[0].tasks - before[0].types[0].tasks);
  round.requests_per_s = static_cast<double>(done) / took;
  round.mean_cells /= static_cast<double>(done);
  round.mean_batch =
      static_cast<double>(after[0].types[0].cells - before[0].types[0].cells) / tasks;
  const double device_s = static_cast<double>(after[0].device_ns - before[0].device_ns) / 1e9;
  round.busy = device_s / took / num_devices_;
  round.task_time = device_s / tasks;
  Drain(submitted);
  return round;
}

void Saturation::SubmitOne() {
  std::unique_ptr<Request> request =
      requests_.Make(stream_.Next(), scheduler_->max_tasks_in_flight());
  request->times.submitted = clock_.NowNs();
  if (!scheduler_->Submit(request)) Require(absl::InternalError("queue full"), "submitting");
}

int64_t Saturation::Serve(double end, SaturatedRound& round) {
  int64_t done = 0;
  std::vector<std::unique_ptr<Request>> finished(64);
  while (Now() < end) {
    const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(finished));
    if (n == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(20));
    for (int i = 0; i < n; ++i) {
      Require(finished[static_cast<size_t>(i)]->status, "a request");
      round.mean_cells += static_cast<double>(finished[static_cast<size_t>(i)]->graph.num_nodes());
      finished[static_cast<size_t>(i)].reset();
      SubmitOne();
    }
    done += n;
  }
  return done;
}

void Saturation::Drain(int left) {
  std::vector<std::unique_ptr<Request>> finished(64);
  while (left > 0) {
    const int n = scheduler_->Take(OutboxId(0), absl::MakeSpan(finished));
    if (n == 0) scheduler_->WaitForFinished(OutboxId(0), absl::Milliseconds(20));
    left -= n;
  }
}

}  // namespace cellbatch
