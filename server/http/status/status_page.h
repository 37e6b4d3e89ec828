// The page a person opens at http://host:8000/ and keeps open: what is served, on what, how fast, right now and over the last
// ten minutes; what was refused, and why. One HTML document that loads nothing but itself again, light or dark as the browser
// asks, on a phone as well; without scripts it is the same, a little less smooth. Costs a few milliseconds a look.
//
// Its size is bounded: kMostSections models have a section of their own, with kMostTypes cell types at most; further ones a row.
#ifndef CELLBATCH_SERVER_HTTP_STATUS_STATUS_PAGE_H_
#define CELLBATCH_SERVER_HTTP_STATUS_STATUS_PAGE_H_

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
#include "server/http/status/history.h"
#include "server/kserve/kserve_service.h"
#include "server/lifecycle.h"
#include "server/requests/admission.h"
#include "server/requests/last_errors.h"
#include "server/requests/request_path.h"
#include "server/requests/request_stats.h"
#include "server/typed/latency_service.h"

namespace cellbatch {

// Everything the page shows, as plain values. Lines: a point a second, the oldest first (history.h).
struct StatusView {
  using Line = std::vector<float>;
  struct CellTypeView {
    std::string name;
    std::string definition;
    int32_t max_batch = 0, peak_batch = 0;  // the second while more nodes than the first wait
    std::vector<CalibrationPoint> points;   // T(b)
    bool kept = false;                      // of an earlier start, confirmed
    uint64_t tasks = 0;
    uint64_t cells = 0;
    double cells_per_second = 0;  // since the last look
    double mean_batch = 0;        // since the start
    int64_t ready = 0;
    Line batch_line, cells_line;
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
    std::string devices;               // that it lives on
    std::string folded;                // what was computed at load for each word
    int32_t priority_levels = 1, default_priority_level = 1;  // of its requests
    std::vector<CellTypeView> types;
    size_t types_beyond = 0;  // kMostTypes
    std::vector<DecisionView> decisions;
    Line requests_line, failed_line, p50_line, p99_line, queue_line;
  };
  struct DeviceView {
    DeviceStats stats;
    double busy_share = 0;  // since the last look
    Line busy_line;
  };
  // Requests turned away by one bound.
  struct RejectedView {
    Rejection reason;
    int64_t count = 0;  // since the start, over all models
    Line line;
  };
  struct ErrorView {
    LastError error;
    int64_t age_seconds = 0;
  };
  std::string phase;
  bool ready = false;
  int64_t uptime_seconds = 0;
  double window_seconds = 0;
  Demand in_flight;
  AdmissionLimits limits;
  std::vector<std::pair<std::string, double>> limits_in_force;
  std::vector<ModelView> models;  // the first kMostSections in full
  std::vector<DeviceView> devices;
  std::vector<RejectedView> rejected;  // those that ever did
  std::vector<ErrorView> errors;       // the last one first
  int64_t history_seconds = 0;
  Line requests_line, rejected_line, in_flight_line;
};

inline constexpr size_t kMostSections = 32;
inline constexpr size_t kMostTypes = 16;

// Pure.
std::string RenderStatus(const StatusView& view);
std::string ModelSectionHtml(const StatusView::ModelView& model, double window_seconds);
// What makes an open page look again, as a file of its own: the policy of the page (kPagePolicy) lets no other script run.
extern const char* const kStatusScript;

class StatusPage {
 public:
  // What it is given outlives it.
  StatusPage(const Scheduler& scheduler, const RequestPath& path, StatsRegistry& stats,
             const Admission& admission, const Lifecycle& lifecycle,
             std::function<std::vector<IndexEntry>()> index, FindModel find, const Clock& clock);
  // Before the first look: where its lines and the last errors are from. Without: none.
  void Watch(const History& history, const LastErrors& errors) {
    history_ = &history;
    errors_ = &errors;
  }
  // Likewise, limits that do not change while it runs, by name.
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
                const std::vector<DeviceStats>& devices, const Earlier& earlier, int64_t now_ns,
                StatusView& view) const;
  void AddTypes(const Model& model, const LaneStats* lane, const LaneStats* before, double seconds,
                StatusView::ModelView& out) const;
  void AddRejected(const std::vector<LaneStats>& lanes, StatusView& view) const;
  void AddDevices(const std::vector<DeviceStats>& devices, const Earlier& earlier, int64_t now_ns,
                  StatusView& view) const;
  StatusView::Line Line(const std::string& name) const;
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
  const History* history_ = nullptr;
  const LastErrors* errors_ = nullptr;
  std::vector<std::pair<std::string, double>> limits_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Earlier> earlier_, latest_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_STATUS_STATUS_PAGE_H_
