#include "server/http/status/status_page.h"

#include <algorithm>
#include <utility>

#include "server/http/status/status_sampler.h"

namespace cellbatch {

namespace {

constexpr int64_t kWindowNs = 30'000'000'000;  // of percentiles and rates
constexpr double kShortestSeconds = 1e-3;
constexpr int64_t kRememberEveryNs = 2'000'000'000;  // so that rates span at least that

double PerSecond(uint64_t now, uint64_t before, int64_t ns) {
  return ns <= 0 || now < before
             ? 0
             : static_cast<double>(now - before) * 1e9 / static_cast<double>(ns);
}

std::vector<StatusView::DecisionView> ViewOf(const std::vector<DecisionStats>& decisions) {
  uint64_t all = 0;
  for (const DecisionStats& decision : decisions) all += decision.tasks;
  std::vector<StatusView::DecisionView> views;
  for (const DecisionStats& decision : decisions) {
    const double share =
        all == 0 ? 0 : static_cast<double>(decision.tasks) / static_cast<double>(all);
    views.push_back({decision.reason, decision.tasks, share});
  }
  return views;
}

const LaneStats* FindLane(const std::vector<LaneStats>& lanes, ModelId model) {
  const auto lane = std::find_if(lanes.begin(), lanes.end(),
                                 [&](const LaneStats& l) { return l.model == model; });
  return lane == lanes.end() ? nullptr : &*lane;
}

}  // namespace

StatusPage::StatusPage(const Scheduler& scheduler, const RequestPath& path, StatsRegistry& stats,
                       const Admission& admission, const Lifecycle& lifecycle,
                       std::function<std::vector<IndexEntry>()> index, FindModel find,
                       const Clock& clock)
    : scheduler_(scheduler),
      path_(path),
      stats_(stats),
      admission_(admission),
      lifecycle_(lifecycle),
      index_(std::move(index)),
      find_(std::move(find)),
      clock_(clock),
      started_ns_(clock.NowNs()),
      earlier_(std::make_shared<Earlier>()),
      latest_(earlier_) {}

// Two looks are kept: rates are taken from the older one, which is never younger than two seconds
// once there were two.
std::shared_ptr<const StatusPage::Earlier> StatusPage::Remember(
    int64_t now_ns, const std::vector<LaneStats>& lanes,
    const std::vector<DeviceStats>& devices) const {
  const std::lock_guard lock(mutex_);
  if (now_ns - latest_->at_ns > kRememberEveryNs) {
    earlier_ = latest_;
    latest_ = std::make_shared<Earlier>(Earlier{now_ns, lanes, devices});
  }
  return earlier_;
}

StatusView StatusPage::Look() const {
  const int64_t now = clock_.NowNs();
  const std::vector<LaneStats> lanes = scheduler_.stats().Lanes();
  const std::vector<DeviceStats> devices = scheduler_.stats().Devices();
  const std::shared_ptr<const Earlier> earlier = Remember(now, lanes, devices);
  StatusView view;
  view.phase = Name(lifecycle_.phase());
  view.ready = lifecycle_.ready();
  view.uptime_seconds = (now - started_ns_) / 1'000'000'000;
  view.window_seconds = static_cast<double>(std::min(kWindowNs, now - started_ns_)) * 1e-9;
  view.in_flight = admission_.InFlight();
  view.limits = admission_.limits();
  view.limits_in_force = limits_;
  std::vector<IndexEntry> index = index_();
  std::stable_partition(index.begin(), index.end(),
                        [](const IndexEntry& entry) { return entry.state == "READY"; });
  for (const IndexEntry& entry : index) AddModel(entry, lanes, devices, *earlier, now, view);
  AddDevices(devices, *earlier, now, view);
  AddRejected(lanes, view);
  if (errors_ != nullptr) {
    for (LastError& error : errors_->Newest()) {
      const int64_t age = (now - error.at_ns) / 1'000'000'000;
      view.errors.push_back({std::move(error), std::max<int64_t>(0, age)});
    }
  }
  view.history_seconds = history_ == nullptr ? 0 : history_->seconds();
  view.requests_line = Line(WholeLine("requests"));
  view.rejected_line = Line(WholeLine("rejected"));
  view.in_flight_line = Line(WholeLine("in_flight"));
  return view;
}

StatusView::Line StatusPage::Line(const std::string& name) const {
  return history_ == nullptr ? StatusView::Line() : history_->Of(name);
}

void StatusPage::AddDevices(const std::vector<DeviceStats>& devices, const Earlier& earlier,
                            int64_t now_ns, StatusView& view) const {
  const int64_t since = std::max(earlier.at_ns, started_ns_);
  for (size_t i = 0; i < devices.size(); ++i) {
    const int64_t before = i < earlier.devices.size() ? earlier.devices[i].busy_ns : 0;
    const double share = PerSecond(static_cast<uint64_t>(devices[i].busy_ns),
                                   static_cast<uint64_t>(before), now_ns - since) *
                         1e-9;
    view.devices.push_back({devices[i], std::min(1.0, share), Line(DeviceLine(devices[i].name))});
  }
}

void StatusPage::AddRejected(const std::vector<LaneStats>& lanes, StatusView& view) const {
  std::array<int64_t, kNumRejections> counts = {};
  std::vector<int> places;
  for (const VersionCounts& version : stats_.Read(lanes, &places)) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += version.requests.rejections[i];
  }
  for (int i = 0; i < kNumRejections; ++i) {
    const int64_t count = counts[static_cast<size_t>(i)];
    const auto reason = static_cast<Rejection>(i);
    if (count > 0) view.rejected.push_back({reason, count, Line(RejectedLine(reason))});
  }
}

void StatusPage::AddModel(const IndexEntry& entry, const std::vector<LaneStats>& lanes,
                          const std::vector<DeviceStats>& devices, const Earlier& earlier,
                          int64_t now_ns, StatusView& view) const {
  const bool in_full = view.models.size() < kMostSections;
  StatusView::ModelView& out = view.models.emplace_back();
  out.name = entry.name;
  out.version = entry.version;
  out.state = entry.state;
  out.reason = entry.reason;
  const auto found = find_(entry.name, entry.version);
  if (!found.ok()) return;
  const Model& model = **found;
  out.counts = stats_.Of(model).Read();
  out.precision = Name(model.precision);
  out.devices = NamesOf(DevicesOf(model.devices, devices));
  out.priority_levels = model.priority_levels;
  out.default_priority_level = model.default_priority_level;
  const LaneStats* lane = FindLane(lanes, model.id);
  if (lane != nullptr) {
    out.waiting = lane->waiting_requests;
    out.running = lane->running_requests;
    out.rows_used = lane->rows_used;
    out.rows_total = lane->rows_total;
    out.policy = lane->policy;
    out.policy_about = lane->policy_about;
    out.join = lane->join;
    out.folded = lane->folded;
    out.decisions = ViewOf(lane->decisions);
  }
  if (!in_full) return;
  const ModelId times_id = stats_.Of(model).times_id();
  out.times = PercentilesOfWindow(path_, {{times_id, model.name, entry.version}}, now_ns, kWindowNs)
                  .front();
  // Where more requests ended than are remembered, it is the last ones that are counted.
  const double seconds = out.times.covered_seconds < view.window_seconds
                             ? std::max(out.times.covered_seconds, kShortestSeconds)
                             : std::max(1.0, view.window_seconds);
  out.requests_per_second = static_cast<double>(out.times.request.count) / seconds;
  const auto line = [&](const char* what) { return Line(ModelLine(out.name, out.version, what)); };
  out.requests_line = line("requests");
  out.failed_line = line("failed");
  out.p50_line = line("p50");
  out.p99_line = line("p99");
  out.queue_line = line("queue");
  const int64_t span_ns = now_ns - std::max(earlier.at_ns, started_ns_);
  AddTypes(model, lane, FindLane(earlier.lanes, model.id), static_cast<double>(span_ns) * 1e-9,
           out);
}

void StatusPage::AddTypes(const Model& model, const LaneStats* lane, const LaneStats* before,
                          double seconds, StatusView::ModelView& out) const {
  const std::vector<CellTypeCalibration> calibration = scheduler_.Calibration(model.id);
  for (const CellType& type : model.types) {
    if (out.types.size() == kMostTypes) {
      out.types_beyond = model.types.size() - kMostTypes;
      return;
    }
    StatusView::CellTypeView& cell = out.types.emplace_back();
    cell.name = type.name;
    cell.definition = type.definition->name();
    cell.max_batch = cell.peak_batch = type.max_batch;
    for (const CellTypeCalibration& measured : calibration) {
      if (measured.type != type.id) continue;
      cell.max_batch = measured.max_batch;
      cell.peak_batch = measured.peak_batch;
      cell.points = measured.points;
      cell.kept = measured.kept;
      break;  // of the first memory
    }
    const auto index = static_cast<size_t>(type.id.value());
    if (lane == nullptr || index >= lane->types.size()) continue;
    const CellTypeStats& stats = lane->types[index];
    const uint64_t cells_before =
        before != nullptr && index < before->types.size() ? before->types[index].cells : 0;
    cell.tasks = stats.tasks;
    cell.cells = stats.cells;
    cell.ready = stats.ready;
    cell.mean_batch =
        stats.tasks == 0 ? 0 : static_cast<double>(stats.cells) / static_cast<double>(stats.tasks);
    cell.cells_per_second =
        PerSecond(stats.cells, cells_before, static_cast<int64_t>(seconds * 1e9));
    cell.batch_line = Line(CellLine(out.name, out.version, stats.name, "batch"));
    cell.cells_line = Line(CellLine(out.name, out.version, stats.name, "cells"));
  }
}

}  // namespace cellbatch
