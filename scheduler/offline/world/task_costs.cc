#include "scheduler/offline/world/task_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

constexpr int32_t kMostNodes = 4096;  // SchedulerOptions::batch_limit goes no further

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status Wrong(size_t type, const TypeCosts& costs) {
  const auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("costs of cell type {}: {}", type, what));
  };
  if (costs.points.empty()) return wrong("no batch size was measured");
  if (costs.max_batch < 1 || costs.max_batch > kMostNodes) {
    return wrong(fmt::format("max_batch is {}, allowed are 1 to {}", costs.max_batch, kMostNodes));
  }
  if (costs.peak_batch != 0 &&
      (costs.peak_batch < costs.max_batch || costs.peak_batch > kMostNodes)) {
    return wrong(fmt::format("peak_batch is {}, allowed are 0 and max_batch, {}, to {}",
                             costs.peak_batch, costs.max_batch, kMostNodes));
  }
  int32_t before = 0;
  for (const CalibrationPoint& point : costs.points) {
    if (point.batch <= before || point.batch > kMostNodes) {
      return wrong(fmt::format("a batch of {} after one of {}; they ascend, to at most {}",
                               point.batch, before, kMostNodes));
    }
    if (point.task_ns < 1) {
      return wrong(fmt::format("a task of {} takes {} ns", point.batch, point.task_ns));
    }
    before = point.batch;
  }
  return absl::OkStatus();
}

std::vector<int64_t> Tabled(const std::vector<CalibrationPoint>& points) {
  std::vector<int64_t> ns(Index(points.back().batch) + 1, points.front().task_ns);
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    const auto& [from, from_ns] = points[i];
    const auto& [to, to_ns] = points[i + 1];
    for (int32_t b = from; b <= to; ++b) {
      ns[Index(b)] = from_ns + (to_ns - from_ns) * (b - from) / (to - from);
    }
  }
  return ns;
}

}  // namespace

absl::StatusOr<TaskCosts> TaskCosts::Of(std::vector<TypeCosts> types) {
  TaskCosts costs;
  for (size_t t = 0; t < types.size(); ++t) {
    if (absl::Status wrong = Wrong(t, types[t]); !wrong.ok()) return wrong;
    costs.ns_.push_back(Tabled(types[t].points));
  }
  costs.types_ = std::move(types);
  return costs;
}

absl::StatusOr<TaskCosts> TaskCosts::Of(absl::Span<const CellTypeCalibration> measured, int memory,
                                        const Model& model) {
  std::vector<TypeCosts> types(model.types.size());
  for (const CellTypeCalibration& type : measured) {
    if (type.memory != memory) continue;
    types[Index(type.type.value())] = {type.max_batch, type.points, type.peak_batch};
  }
  return Of(std::move(types));
}

int64_t TaskCosts::Beyond(const std::vector<int64_t>& ns, int32_t nodes) {
  const int64_t last = ns.back();
  const auto measured = static_cast<int64_t>(ns.size()) - 1;
  // Of one size alone: in proportion.
  const int64_t more = measured > 1 ? std::max<int64_t>(last - ns[ns.size() - 2], 0) : last;
  return last + more * (nodes - measured);
}

TaskCosts TaskCosts::Slower(absl::Span<const double> times, int64_t task_ns) const {
  Check(times.size() == types_.size(), "so much slower, but of which type");
  std::vector<TypeCosts> types = types_;
  for (size_t t = 0; t < types.size(); ++t) {
    for (CalibrationPoint& point : types[t].points) {
      point.task_ns = std::llround(static_cast<double>(point.task_ns) * times[t]) + task_ns;
    }
  }
  absl::StatusOr<TaskCosts> slower = Of(std::move(types));
  Check(slower.ok(), "costs that were sound take no time now");
  return *std::move(slower);
}

std::shared_ptr<const Model> WithBatchesOf(const TaskCosts& costs, const Model& model) {
  Check(costs.types().size() == model.types.size(), "costs are of another model");
  auto with = std::make_shared<Model>(model);
  for (size_t t = 0; t < with->types.size(); ++t) {
    with->types[t].max_batch = costs.types()[t].max_batch;
    with->types[t].peak_batch = costs.types()[t].peak_batch;
    with->types[t].min_batch = std::min(with->types[t].min_batch, with->types[t].max_batch);
  }
  return with;
}

}  // namespace cellbatch
