// The page a person opens at http://host:8000/: what is served, on what, how fast, right now. One
// HTML document without scripts from elsewhere, light or dark as the browser asks; it refreshes
// itself. Costs a few milliseconds a look.
#ifndef CELLBATCH_SERVER_HTTP_STATUS_PAGE_H_
#define CELLBATCH_SERVER_HTTP_STATUS_PAGE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/clock.h"
#include "scheduler/scheduler.h"
#include "server/kserve/kserve_service.h"
#include "server/lifecycle.h"
#include "server/requests/admission.h"
#include "server/requests/request_path.h"
#include "server/requests/request_stats.h"
#include "server/typed/latency_service.h"

namespace cellbatch {

// Everything the page shows, as plain values.
struct StatusView {
  struct CellTypeView {
    std::string name;
    std::string definition;
    int32_t max_batch = 0;
    std::vector<CalibrationPoint> points;  // T(b)
    uint64_t tasks = 0;
    uint64_t cells = 0;
    double cells_per_second = 0;  // since the last look
    double mean_batch = 0;        // since the start
    int64_t ready = 0;
  };
  // Why tasks were formed of the type they are of.
  struct DecisionView {
    std::string reason;
    uint64_t tasks = 0;
    double share = 0;  // of all the model's
  };
  struct ModelView {
    std::string name;
    std::string version;
    std::string state;
    std::string reason;
    double requests_per_second = 0;  // answered OK, over the window
    ModelPercentiles times;
    RequestCounts counts;
    int64_t waiting = 0, running = 0;
    int64_t rows_used = 0, rows_total = 0;
    std::string policy, policy_about;  // what decides which cell type runs next
    std::string join;                  // and which requests run together
    std::string precision;             // of its products
    std::string folded;                // what was computed at load for each word
    int32_t priority_levels = 1, default_priority_level = 1;  // of its requests
    std::vector<CellTypeView> types;
    std::vector<DecisionView> decisions;
  };
  struct DeviceView {
    DeviceStats stats;
    double busy_share = 0;  // since the last look
  };
  std::string phase;
  bool ready = false;
  int64_t uptime_seconds = 0;
  double window_seconds = 0;
  Demand in_flight;
  AdmissionLimits limits;
  std::vector<std::pair<std::string, double>> limits_in_force;
  std::vector<ModelView> models;
  std::vector<DeviceView> devices;
};

// Pure.
std::string RenderStatus(const StatusView& view);

class StatusPage {
 public:
  // What it is given outlives it.
  StatusPage(const Scheduler& scheduler, const RequestPath& path, StatsRegistry& stats,
             const Admission& admission, const Lifecycle& lifecycle,
             std::function<std::vector<IndexEntry>()> index, FindModel find, const Clock& clock);
  // Before the first look: limits that do not change while it runs, by name.
  void ShowLimits(std::vector<std::pair<std::string, double>> limits) {
    limits_ = std::move(limits);
  }
  StatusView Look() const;  // any thread
  std::string Html() const { return RenderStatus(Look()); }

 private:
  // The counts of an earlier look, to take rates from.
  struct Earlier {
    int64_t at_ns = 0;
    std::vector<LaneStats> lanes;
    std::vector<DeviceStats> devices;
  };
  void AddModel(const IndexEntry& entry, const std::vector<LaneStats>& lanes,
                const Earlier& earlier, int64_t now_ns, StatusView& view) const;
  std::shared_ptr<const Earlier> Remember(int64_t now_ns, const std::vector<LaneStats>& lanes,
                                          const std::vector<DeviceStats>& devices) const;

  const Scheduler& scheduler_;
  const RequestPath& path_;
  StatsRegistry& stats_;
  const Admission& admission_;
  const Lifecycle& lifecycle_;
  const std::function<std::vector<IndexEntry>()> index_;
  const FindModel find_;
  const Clock& clock_;
  const int64_t started_ns_;
  std::vector<std::pair<std::string, double>> limits_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Earlier> earlier_, latest_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_STATUS_PAGE_H_
