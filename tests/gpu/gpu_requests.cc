#include "tests/gpu/gpu_requests.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "cells/device/cpu/process_limits.h"
#include "tests/gpu/thread_cpu.h"

namespace cellbatch {
namespace {

constexpr double kLookEvery = 0.01;  // seconds

void Sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double Us(std::vector<int64_t>& ns, double quantile) {
  if (ns.empty()) return 0;
  const auto at = static_cast<size_t>(quantile * static_cast<double>(ns.size() - 1));
  const auto nth = ns.begin() + static_cast<std::ptrdiff_t>(at);
  std::nth_element(ns.begin(), nth, ns.end());
  return static_cast<double>(*nth) / 1e3;
}

void Append(std::vector<int64_t>& to, const std::vector<int64_t>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

// Counts at one moment.
struct GpuServing::Seen {
  int64_t at_ns = 0, busy_ns = 0;
  double tasks = 0, cells = 0, launches = 0;
  DriverWork work;
  std::optional<int64_t> manager_ns, workers_ns;

  double seconds_since(const Seen& before) const {
    return static_cast<double>(at_ns - before.at_ns) * 1e-9;
  }
  double mean_batch_since(const Seen& before) const {
    return (cells - before.cells) / std::max(1.0, tasks - before.tasks);
  }
};

GpuServing::GpuServing(DeviceSet devices) : devices_(std::move(devices)) {
  for (const auto& device : devices_.devices) {
    gpus_.push_back(static_cast<const cuda::CudaDevice*>(device.get()));
  }
}

GpuServing::~GpuServing() {
  if (scheduler_ != nullptr) scheduler_->Stop();
}

absl::StatusOr<std::unique_ptr<GpuServing>> GpuServing::Make(DeviceSet devices,
                                                             std::shared_ptr<const Model> model,
                                                             const Lengths& lengths,
                                                             int num_drivers, uint64_t seed) {
  std::unique_ptr<GpuServing> serving(new GpuServing(std::move(devices)));
  const absl::Status status = serving->Serve(std::move(model), lengths, num_drivers, seed);
  if (!status.ok()) return status;
  return serving;
}

absl::Status GpuServing::Serve(std::shared_ptr<const Model> model, const Lengths& lengths,
                               int num_drivers, uint64_t seed) {
  SchedulerOptions options;
  options.num_outboxes = num_drivers;
  scheduler_ = Require(Scheduler::Create(options, std::move(devices_), clock_), "scheduler");
  num_devices_ = static_cast<int>(scheduler_->stats().Devices().size());
  const absl::Status added = scheduler_->AddModel(model, nullptr);
  if (!added.ok()) return added;
  for (const CellTypeCalibration& c : scheduler_->Calibration(model->id)) {
    b_max_ = c.max_batch;
    b_peak_ = c.peak_batch;
  }
  for (int i = 0; i < num_drivers; ++i) {
    drivers_.push_back(std::make_unique<ChainDriver>(*scheduler_, clock_, model, lengths,
                                                     OutboxId(i), seed + static_cast<uint64_t>(i)));
  }
  return absl::OkStatus();
}

int GpuServing::in_flight() const {
  const int each = (std::max(4 * b_peak_ * num_devices_, 64) + num_drivers() - 1) / num_drivers();
  return each * num_drivers();
}

GpuServing::Seen GpuServing::See() const {
  Seen seen;
  const std::vector<LaneStats> lanes = scheduler_->stats().Lanes();
  seen.tasks = static_cast<double>(lanes[0].types[0].tasks);
  seen.cells = static_cast<double>(lanes[0].types[0].cells);
  for (const cuda::CudaDevice* gpu : gpus_) seen.launches += static_cast<double>(gpu->launches());
  for (const auto& driver : drivers_) seen.work += driver->work();
  seen.manager_ns = ThreadCpuNs("cb-manager");
  seen.workers_ns = ThreadCpuNs("cb-worker-");
  for (const DeviceStats& d : scheduler_->stats().Devices()) seen.busy_ns += d.busy_ns;
  seen.at_ns = clock_.NowNs();
  return seen;
}

absl::StatusOr<FullGpu> GpuServing::Full(double seconds) {
  FullGpu full;
  std::atomic<bool> stop = false;
  const absl::Status status =
      Drive([&](size_t i) { return drivers_[i]->KeepFull(in_flight() / num_drivers(), stop); },
            [&] {
              Sleep(seconds / 3);  // until the mix of starts and ends is steady
              Watch(seconds, full);
              stop = true;
            });
  if (!status.ok()) return status;
  return full;
}

void GpuServing::Watch(double seconds, FullGpu& full) const {
  const Seen before = See();
  double looks = 0, scheduled = 0, ready = 0;
  for (const double end = seconds + static_cast<double>(before.at_ns) * 1e-9;
       static_cast<double>(clock_.NowNs()) * 1e-9 < end; ++looks) {
    Sleep(std::min(kLookEvery, seconds / 10));
    const LaneStats lane = scheduler_->stats().Lanes()[0];
    scheduled += static_cast<double>(lane.waiting_requests + lane.running_requests);
    ready += static_cast<double>(lane.types[0].ready);
  }
  const Seen after = See();
  const double took = after.seconds_since(before);
  full.work = after.work - before.work;
  const auto done = static_cast<double>(std::max<int64_t>(1, full.work.requests));
  full.requests_per_s = static_cast<double>(full.work.requests) / took;
  full.mean_cells = static_cast<double>(full.work.cells) / done;
  full.mean_batch = after.mean_batch_since(before);
  full.tasks_a_launch =
      (after.tasks - before.tasks) / std::max(1.0, after.launches - before.launches);
  full.idle = 1 - static_cast<double>(after.busy_ns - before.busy_ns) * 1e-9 / took / num_devices_;
  full.drivers_busy = static_cast<double>(full.work.busy_ns()) * 1e-9 / took / num_drivers();
  full.at_drivers = 1 - scheduled / looks / in_flight();
  full.ready = ready / looks;
  const auto cores = [&](std::optional<int64_t> now,
                         std::optional<int64_t> then) -> std::optional<double> {
    if (!now || !then) return std::nullopt;
    return static_cast<double>(*now - *then) * 1e-9 / took;
  };
  full.manager_cores = cores(after.manager_ns, before.manager_ns);
  full.worker_cores = cores(after.workers_ns, before.workers_ns);
  if (full.worker_cores) *full.worker_cores /= num_devices_;
}

absl::StatusOr<OpenGpu> GpuServing::Open(double per_s, double seconds) {
  const auto ns = [](double s) { return static_cast<int64_t>(s * 1e9); };
  OpenLoop arrivals;
  arrivals.per_s = per_s / num_drivers();
  arrivals.first_ns = clock_.NowNs() + ns(0.001);
  arrivals.measured_ns = arrivals.first_ns + ns(seconds / 5);
  arrivals.end_ns = arrivals.measured_ns + ns(seconds);
  arrivals.spin = UsableCores() >= num_drivers() + num_devices_ + 2;
  std::vector<ArrivalTimes> times(drivers_.size());
  for (ArrivalTimes& of_driver : times) {
    const auto about = static_cast<size_t>(arrivals.per_s * seconds * 1.2 + 1000);
    of_driver.latency_ns.reserve(about);
    of_driver.late_ns.reserve(about);
  }
  OpenGpu open;
  const absl::Status status =
      Drive([&](size_t i) { return drivers_[i]->Arrive(arrivals, times[i]); },
            [&] {
              Sleep(seconds / 5);
              const Seen before = See();
              Sleep(seconds);
              const Seen after = See();
              open.mean_batch = after.mean_batch_since(before);
              open.answered_per_s = static_cast<double>((after.work - before.work).requests) /
                                    after.seconds_since(before);
            });
  if (!status.ok()) return status;
  ArrivalTimes all;
  for (const ArrivalTimes& of_driver : times) {
    Append(all.latency_ns, of_driver.latency_ns);
    Append(all.late_ns, of_driver.late_ns);
  }
  open.asked_per_s = per_s;
  open.measured = std::ssize(all.latency_ns);
  open.p50_us = Us(all.latency_ns, 0.5);
  open.p99_us = Us(all.latency_ns, 0.99);
  open.late_p99_us = Us(all.late_ns, 0.99);
  return open;
}

absl::Status GpuServing::Drive(const std::function<absl::Status(size_t)>& driver,
                               const std::function<void()>& meanwhile) {
  std::vector<absl::Status> ended(drivers_.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < drivers_.size(); ++i) {
    threads.emplace_back([&, i] { ended[i] = driver(i); });
    pthread_setname_np(threads.back().native_handle(), "gpu-driver");
  }
  meanwhile();
  for (std::thread& thread : threads) thread.join();
  for (absl::Status& status : ended) {
    if (!status.ok()) return std::move(status);
  }
  return absl::OkStatus();
}

}  // namespace cellbatch
