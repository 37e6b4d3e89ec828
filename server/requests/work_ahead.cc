#include "server/requests/work_ahead.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cellbatch {

namespace {

constexpr int64_t kTurnNodes = 64;
constexpr int64_t kFull = 1 << 20;               // fill of a full batch
constexpr int64_t kLeastWindowNs = 100'000'000;  // of one measurement of the pace
constexpr double kBatchesAWindow = 2;            // whose work has left by then, at least
constexpr double kWeightOfLatest = 0.5;          // in the pace
constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

int64_t FillOf(const RequestWork& request) {
  if (request.path_ns <= 0) return 0;
  return static_cast<int64_t>(static_cast<double>(request.work_ns) * static_cast<double>(kFull) /
                              static_cast<double>(request.path_ns));
}

int64_t Whole(double ns) {
  return ns >= static_cast<double>(kNever) ? kNever : static_cast<int64_t>(std::llround(ns));
}

}  // namespace

WorkAhead::WorkAhead(const Model& model, absl::Span<const CellTypeCalibration> calibration,
                     int devices)
    : devices_(std::max(devices, 1)),
      task_ns_(model.types.size(), 0),
      cell_ns_(model.types.size(), 0),
      default_level_(model.default_priority_level - 1),
      levels_(static_cast<size_t>(model.priority_levels)),
      pace_(1.0 / devices_) {
  for (const CellType& type : model.types) {
    carries_.push_back(type.definition->carry().has_value());
  }
  for (const CellTypeCalibration& measured : calibration) {
    const auto type = static_cast<size_t>(measured.type.value());
    if (type >= task_ns_.size() || task_ns_[type] > 0) continue;
    for (const CalibrationPoint& point : measured.points) {  // ascending
      if (point.batch > measured.max_batch || point.task_ns <= 0) break;
      task_ns_[type] = static_cast<double>(point.task_ns);
      cell_ns_[type] = task_ns_[type] / point.batch;
    }
  }
}

RequestWork WorkAhead::Of(const CellGraph& graph, int32_t priority) const {
  double work = 0, tasks = 0;
  int64_t cells = 0, path = 0;
  for (const Subgraph& s : graph.subgraphs()) {
    if (!s.type.valid()) continue;
    const auto type = static_cast<size_t>(s.type.value());
    work += s.length * cell_ns_[type];
    tasks += s.length * task_ns_[type];
    cells += s.length;
    path = std::max<int64_t>(path, int64_t{s.depth} + (carries_[type] ? s.length : 1));
  }
  if (cells == 0 || work <= 0) return {};
  const double task = tasks / static_cast<double>(cells);
  // What may follow is taken to be of the same kind, one node after the other.
  const int64_t follow = graph.most_nodes() - graph.num_nodes();
  work *= 1 + static_cast<double>(follow) / static_cast<double>(cells);
  path += follow;
  return {.work_ns = std::max<int64_t>(1, Whole(work)),
          .path_ns = std::max<int64_t>(1, Whole(task * static_cast<double>(path))),
          .turn_ns = Whole(task * kTurnNodes),
          .turns = (path + kTurnNodes - 1) / kTurnNodes,
          .level = priority > 0 ? priority - 1 : default_level_};
}

RequestWork WorkAhead::Least() const {
  return {.turn_ns = turn_ns_.load(std::memory_order_relaxed)};
}

void WorkAhead::Add(const RequestWork& request) {
  InFlight& level = levels_[static_cast<size_t>(request.level)];
  level.work_ns.fetch_add(request.work_ns, std::memory_order_relaxed);
  level.fill.fetch_add(FillOf(request), std::memory_order_relaxed);
  turn_ns_.store(request.turn_ns, std::memory_order_relaxed);
}

void WorkAhead::Remove(const RequestWork& request, double share, int64_t now_ns) {
  InFlight& level = levels_[static_cast<size_t>(request.level)];
  level.work_ns.fetch_sub(request.work_ns, std::memory_order_relaxed);
  level.fill.fetch_sub(FillOf(request), std::memory_order_relaxed);
  retired_ns_.fetch_add(Whole(static_cast<double>(request.work_ns) * std::clamp(share, 0.0, 1.0)),
                        std::memory_order_relaxed);
  if (measuring_.test_and_set(std::memory_order_acquire)) return;  // somebody else is looking
  Measure(now_ns);
  measuring_.clear(std::memory_order_release);
}

WorkAhead::Sum WorkAhead::UpTo(size_t level) const {
  Sum sum;
  for (size_t i = 0; i <= level; ++i) {
    sum.work_ns += static_cast<double>(levels_[i].work_ns.load(std::memory_order_relaxed));
    sum.fill += static_cast<double>(levels_[i].fill.load(std::memory_order_relaxed));
  }
  sum.fill /= static_cast<double>(kFull);
  return sum;
}

// In a window batches were half full at least, all the time: nearly as full as when anybody is refused. Requests that
// leave together would be a burst in a short one, so it lasts until some batches' worth of them has left.
void WorkAhead::Measure(int64_t now_ns) {
  const Sum now = UpTo(levels_.size() - 1);
  window_.least_fill = std::min(window_.least_fill, now.fill);
  const int64_t retired = retired_ns_.load(std::memory_order_relaxed) - window_.retired_ns;
  const int64_t took = now_ns - window_.since_ns;
  if (window_.least_fill >= devices_ / 2) {
    const double of_a_batch = now.work_ns * std::min(1.0, devices_ / now.fill);
    if (took < kLeastWindowNs || retired <= 0) return;
    if (static_cast<double>(retired) < kBatchesAWindow * of_a_batch) return;
    const double seen = static_cast<double>(took) / static_cast<double>(retired);
    pace_.store(pace() + kWeightOfLatest * (seen - pace()), std::memory_order_relaxed);
  }
  window_ = {
      .since_ns = now_ns, .retired_ns = window_.retired_ns + retired, .least_fill = now.fill};
}

int64_t WorkAhead::EstimateNs(const RequestWork& request, int64_t also_ns) const {
  const Sum before = UpTo(static_cast<size_t>(request.level));
  if (before.fill < devices_) return 0;
  const double running = devices_ / before.fill;  // of what is in flight
  const double turns =
      before.fill * static_cast<double>(request.turn_ns) * static_cast<double>(request.turns);
  const double ahead =
      std::min(before.work_ns * (1 - running / 2) + static_cast<double>(also_ns), turns);
  return Whole((ahead + static_cast<double>(request.path_ns) * devices_) * pace());
}

}  // namespace cellbatch
