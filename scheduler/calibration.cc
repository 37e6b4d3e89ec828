#include "scheduler/calibration.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

std::vector<int32_t> CalibrationSizes(int32_t limit) {
  std::vector<int32_t> sizes;
  for (int32_t b = 1; b <= limit; b *= 2) {
    sizes.push_back(b);
    if (b >= 2 && b + b / 2 <= limit) sizes.push_back(b + b / 2);
  }
  if (!sizes.empty() && sizes.back() != limit) sizes.push_back(limit);
  return sizes;
}

int32_t Knee(const std::vector<CalibrationPoint>& points) {
  double best = 0;
  const auto rate = [](const CalibrationPoint& p) {
    return static_cast<double>(p.batch) / static_cast<double>(std::max<int64_t>(p.task_ns, 1));
  };
  for (const CalibrationPoint& p : points) best = std::max(best, rate(p));
  int32_t knee = 1;
  for (const CalibrationPoint& p : points) {
    if (rate(p) < kKneeShare * best) continue;
    knee = p.batch;
    if (p.task_ns >= kLeastFullTaskNs) break;
  }
  return knee;
}

Calibration::Calibration(const Model& model, std::vector<int32_t> most_rows, int32_t batch_limit,
                         int num_workers, bool measure)
    : model_(model),
      batch_limit_(batch_limit),
      measure_(measure),
      workers_(static_cast<size_t>(num_workers)) {
  for (size_t t = 0; t < model.types.size(); ++t) {
    const int32_t configured = model.types[t].max_batch;
    const int32_t limit = std::max(
        1,
        std::min(configured > 0 ? std::min(configured, batch_limit) : batch_limit, most_rows[t]));
    sizes_.push_back(measure ? CalibrationSizes(limit) : std::vector<int32_t>{1});
  }
  for (Progress& p : workers_) {
    p.points.resize(model.types.size());
    StartType(p);
  }
}

void Calibration::StartType(Progress& p) {
  p.round = 0;
  p.size = 0;
  p.done = static_cast<size_t>(p.type) == sizes_.size();
  p.num_sizes = p.done ? 0 : sizes_[static_cast<size_t>(p.type)].size();
}

std::optional<Calibration::Step> Calibration::Next(int worker) const {
  const Progress& p = workers_[static_cast<size_t>(worker)];
  if (p.done || p.out) return std::nullopt;
  return Step{p.type, sizes_[static_cast<size_t>(p.type)][p.size]};
}

// Round 0 warms and is not counted, except where nothing else is measured.
void Calibration::Finished(int worker, int64_t task_ns) {
  Progress& p = workers_[static_cast<size_t>(worker)];
  Check(p.out, "a calibration task finished that was not started");
  p.out = false;
  std::vector<CalibrationPoint>& points = p.points[static_cast<size_t>(p.type)];
  if (p.round == 0) {
    points.push_back({sizes_[static_cast<size_t>(p.type)][p.size], task_ns});
    const bool long_before = p.size > 0 && points[p.size - 1].task_ns >= kLongTaskNs;
    if (long_before && task_ns >= kLongTaskNs) p.num_sizes = p.size + 1;
  } else if (p.round == 1 || task_ns < points[p.size].task_ns) {
    points[p.size].task_ns = task_ns;
  }
  if (++p.size < p.num_sizes) return;
  p.size = 0;
  // Other workers than the first only get warm: one task of each size.
  if (++p.round <= (measure_ && worker == 0 ? kCalibrationRounds : 0)) return;
  for (size_t i = points.size() - 1; i > 0; --i) {
    points[i - 1].task_ns = std::min(points[i - 1].task_ns, points[i].task_ns);
  }
  ++p.type;
  StartType(p);
}

bool Calibration::done() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Progress& p) { return p.done && !p.out; });
}

std::vector<CellTypeCalibration> Calibration::Results() const {
  std::vector<CellTypeCalibration> results;
  for (size_t t = 0; t < model_.types.size(); ++t) {
    CellTypeCalibration c;
    c.type = model_.types[t].id;
    const int32_t configured = model_.types[t].max_batch;
    if (measure_) c.points = workers_.front().points[t];
    if (configured > 0) {
      c.max_batch = std::min(configured, batch_limit_);
    } else {
      c.max_batch = measure_ ? Knee(c.points) : batch_limit_;
    }
    results.push_back(std::move(c));
  }
  return results;
}

}  // namespace cellbatch
