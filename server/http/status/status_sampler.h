// Once a second, on a thread of its own: what the counters have become since the last time, as points of the status page's
// history. Reads copies of counters that others keep writing, as a scrape does; stops nobody and is never waited for.
#ifndef CELLBATCH_SERVER_HTTP_STATUS_STATUS_SAMPLER_H_
#define CELLBATCH_SERVER_HTTP_STATUS_STATUS_SAMPLER_H_

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/http/status/history.h"
#include "server/requests/admission.h"
#include "server/requests/request_path.h"
#include "server/requests/request_stats.h"

namespace cellbatch {

// Names of lines.
std::string WholeLine(std::string_view what);  // "requests", "rejected", "in_flight"
std::string RejectedLine(Rejection reason);
std::string DeviceLine(std::string_view device);
std::string ModelLine(std::string_view model, std::string_view version, std::string_view what);
std::string CellLine(std::string_view model, std::string_view version, std::string_view cell,
                     std::string_view what);

class StatusSampler {
 public:
  using Served = std::function<std::vector<std::shared_ptr<const Model>>()>;
  // What it is given outlives it.
  StatusSampler(const Scheduler& scheduler, const RequestPath& path, StatsRegistry& stats,
                const Admission& admission, Served served, const Clock& clock);
  ~StatusSampler();

  void Start();   // the thread
  void Sample();  // its step, or a test's: the points since the last one. One thread at a time.
  const History& history() const { return history_; }

 private:
  using Points = std::vector<std::pair<std::string, float>>;
  struct Work {
    uint64_t tasks = 0, cells = 0;
  };
  struct OfModel {
    int64_t done = 0, failed = 0;
    std::vector<Work> types;
  };
  void Run();
  void AddTimes(const std::vector<std::shared_ptr<const Model>>& served, int64_t now_ns,
                Points& points) const;
  void AddModel(const Model& model, const LaneStats* lane, double seconds, Points& points);
  void AddWhole(const std::vector<LaneStats>& lanes, double seconds, Points& points);
  void AddDevices(double seconds, Points& points);

  const Scheduler& scheduler_;
  const RequestPath& path_;
  StatsRegistry& stats_;
  const Admission& admission_;
  const Served served_;
  const Clock& clock_;
  History history_;
  // Of the last sample.
  int64_t last_ns_;
  std::map<ModelId, OfModel> models_;
  std::array<int64_t, kNumRejections> rejections_ = {};
  int64_t done_ = 0;
  std::map<std::string, int64_t> busy_ns_;

  std::mutex mutex_;
  std::condition_variable stopping_;
  bool stop_ = false;  // under it
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_STATUS_STATUS_SAMPLER_H_
