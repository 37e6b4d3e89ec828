#include "server/http/status/status_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr int64_t kEveryNs = 1'000'000'000;

struct Times {
  std::vector<int64_t> request, queue;
};

float Milliseconds(int64_t ns) { return static_cast<float>(static_cast<double>(ns) * 1e-6); }

// The ceil(quantile * n)-th smallest. REQUIRES: not empty.
int64_t Smallest(std::vector<int64_t>& times, double quantile) {
  const auto n = static_cast<double>(times.size());
  const auto rank = std::max<int64_t>(1, static_cast<int64_t>(quantile * n + 0.999999));
  const auto at = times.begin() + (rank - 1);
  std::nth_element(times.begin(), at, times.end());
  return *at;
}

int64_t Failed(const RequestCounts& counts) {
  int64_t failed = 0;
  for (int i = 0; i < kNumOutcomes; ++i) {
    if (static_cast<RequestOutcome>(i) != RequestOutcome::kOk) {
      failed += counts.outcomes[static_cast<size_t>(i)];
    }
  }
  return failed;
}

float PerSecond(int64_t now, int64_t before, double seconds) {
  return static_cast<float>(static_cast<double>(now - before) / seconds);
}

}  // namespace

// Names of models and cells have no control characters (client_text.h).
std::string WholeLine(std::string_view what) { return std::string(what); }
std::string RejectedLine(Rejection reason) { return fmt::format("rejected\n{}", Name(reason)); }
std::string DeviceLine(std::string_view device) { return fmt::format("device\n{}", device); }
std::string ModelLine(std::string_view model, std::string_view version, std::string_view what) {
  return fmt::format("model\n{}\n{}\n{}", model, version, what);
}
std::string CellLine(std::string_view model, std::string_view version, std::string_view cell,
                     std::string_view what) {
  return fmt::format("cell\n{}\n{}\n{}\n{}", model, version, cell, what);
}

StatusSampler::StatusSampler(const Scheduler& scheduler, const RequestPath& path,
                             StatsRegistry& stats, const Admission& admission, Served served,
                             const Clock& clock)
    : scheduler_(scheduler),
      path_(path),
      stats_(stats),
      admission_(admission),
      served_(std::move(served)),
      clock_(clock),
      last_ns_(clock.NowNs()) {}

StatusSampler::~StatusSampler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopping_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void StatusSampler::Start() {
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "cb-history");
}

void StatusSampler::Run() {
  std::unique_lock lock(mutex_);
  auto next = std::chrono::steady_clock::now();
  for (;;) {
    next += std::chrono::nanoseconds(kEveryNs);
    if (stopping_.wait_until(lock, next, [this] { return stop_; })) return;
    lock.unlock();
    // Of a machine that slept: its seconds have no points.
    const auto late = std::min<int64_t>(
        (std::chrono::steady_clock::now() - next) / std::chrono::nanoseconds(kEveryNs),
        History::kPoints);
    for (int64_t i = 0; i < late; ++i) history_.Add({});
    next += late * std::chrono::nanoseconds(kEveryNs);
    Sample();
    lock.lock();
  }
}

void StatusSampler::Sample() {
  const int64_t now_ns = clock_.NowNs();
  const double seconds = std::max(1e-3, static_cast<double>(now_ns - last_ns_) * 1e-9);
  const std::vector<std::shared_ptr<const Model>> served = served_();
  const std::vector<LaneStats> lanes = scheduler_.stats().Lanes();
  Points points;
  AddTimes(served, now_ns, points);
  for (const auto& model : served) {
    const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                   [&](const LaneStats& l) { return l.model == model->id; });
    AddModel(*model, lane == lanes.end() ? nullptr : &*lane, seconds, points);
  }
  std::erase_if(models_, [&](const auto& known) {
    return std::none_of(served.begin(), served.end(),
                        [&](const auto& model) { return model->id == known.first; });
  });
  AddWhole(lanes, seconds, points);
  AddDevices(seconds, points);
  last_ns_ = now_ns;
  history_.Add(points);
}

void StatusSampler::AddTimes(const std::vector<std::shared_ptr<const Model>>& served,
                             int64_t now_ns, Points& points) const {
  std::vector<LatencySample> samples;
  for (int i = 0; i < path_.responders(); ++i) path_.latencies(i).CopySince(last_ns_, samples);
  std::unordered_map<ModelId, Times> times;
  for (const LatencySample& sample : samples) {
    if (!sample.ok || sample.end_ns >= now_ns) continue;
    Times& of_model = times[sample.model];
    of_model.request.push_back(sample.request_ns);
    of_model.queue.push_back(sample.queue_ns);
  }
  for (const auto& model : served) {
    const auto found = times.find(stats_.Of(*model).times_id());
    if (found == times.end()) continue;
    const std::string version = std::to_string(model->version);
    const auto add = [&](const char* what, std::vector<int64_t>& of, double quantile) {
      points.emplace_back(ModelLine(model->name, version, what),
                          Milliseconds(Smallest(of, quantile)));
    };
    add("p50", found->second.request, 0.5);
    add("p99", found->second.request, 0.99);
    add("queue", found->second.queue, 0.99);
  }
}

void StatusSampler::AddModel(const Model& model, const LaneStats* lane, double seconds,
                             Points& points) {
  const std::string version = std::to_string(model.version);
  const RequestCounts counts = stats_.Of(model).Read();
  const int64_t failed = Failed(counts);
  const auto [known, is_new] = models_.try_emplace(model.id);
  OfModel& before = known->second;
  if (!is_new) {
    points.emplace_back(ModelLine(model.name, version, "requests"),
                        PerSecond(counts.done, before.done, seconds));
    points.emplace_back(ModelLine(model.name, version, "failed"),
                        PerSecond(failed, before.failed, seconds));
  }
  before.done = counts.done;
  before.failed = failed;
  if (lane == nullptr) return;
  const bool types_known = before.types.size() == lane->types.size();
  before.types.resize(lane->types.size());
  for (size_t i = 0; i < lane->types.size(); ++i) {
    const CellTypeStats& type = lane->types[i];
    Work& last = before.types[i];
    if (types_known && type.tasks >= last.tasks && type.cells >= last.cells) {
      const auto tasks = static_cast<double>(type.tasks - last.tasks);
      const auto cells = static_cast<double>(type.cells - last.cells);
      points.emplace_back(CellLine(model.name, version, type.name, "cells"),
                          static_cast<float>(cells / seconds));
      if (tasks > 0) {
        points.emplace_back(CellLine(model.name, version, type.name, "batch"),
                            static_cast<float>(cells / tasks));
      }
    }
    last = {type.tasks, type.cells};
  }
}

void StatusSampler::AddWhole(const std::vector<LaneStats>& lanes, double seconds, Points& points) {
  std::array<int64_t, kNumRejections> rejections = {};
  int64_t done = 0;
  std::vector<int> places;
  for (const VersionCounts& version : stats_.Read(lanes, &places)) {
    done += version.requests.done;
    for (size_t i = 0; i < rejections.size(); ++i) {
      rejections[i] += version.requests.rejections[i];
    }
  }
  int64_t all = 0, all_before = 0;
  for (int i = 0; i < kNumRejections; ++i) {
    const auto at = static_cast<size_t>(i);
    if (rejections[at] > 0) {
      points.emplace_back(RejectedLine(static_cast<Rejection>(i)),
                          PerSecond(rejections[at], rejections_[at], seconds));
    }
    all += rejections[at];
    all_before += rejections_[at];
  }
  points.emplace_back(WholeLine("requests"), PerSecond(done, done_, seconds));
  points.emplace_back(WholeLine("rejected"), PerSecond(all, all_before, seconds));
  points.emplace_back(WholeLine("in_flight"), static_cast<float>(admission_.InFlight().requests));
  rejections_ = rejections;
  done_ = done;
}

void StatusSampler::AddDevices(double seconds, Points& points) {
  for (const DeviceStats& device : scheduler_.stats().Devices()) {
    const auto [known, is_new] = busy_ns_.try_emplace(device.name, device.busy_ns);
    if (!is_new) {
      const double busy = static_cast<double>(device.busy_ns - known->second) * 1e-9 / seconds;
      points.emplace_back(DeviceLine(device.name), static_cast<float>(std::min(1.0, busy)));
    }
    known->second = device.busy_ns;
  }
}

}  // namespace cellbatch
