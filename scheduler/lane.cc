#include "scheduler/lane.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "scheduler/policy/cellular_policy.h"

namespace cellbatch {

Lane::Lane(int index, uint32_t serial, std::shared_ptr<const Model> model,
           std::unique_ptr<const Policy> policy, std::vector<Loaded> loaded,
           absl::Span<const int> memory_of, const SchedulerOptions& options)
    : index_(index),
      serial_(serial),
      model_(std::move(model)),
      policy_(policy ? std::move(policy) : std::make_unique<CellularPolicy>()),
      max_wait_tasks_(std::max<int64_t>(options.max_wait_tasks,
                                        2 * static_cast<int64_t>(model_->types.size()))),
      line_(options.max_requests),
      memories_(std::move(loaded)),
      share_(memories_.size(), static_cast<int>(model_->types.size()), model_->weight),
      counters_(static_cast<int>(model_->types.size())),
      tasks_(memory_of.size(), 0),
      memory_of_(memory_of.begin(), memory_of.end()),
      max_batch_(memory_of.size() * model_->types.size(), 0) {
  const int num_workers = static_cast<int>(memory_of.size());
  for (const CellType& type : model_->types) {
    shapes_.emplace_back(type);
    warm_rows_.push_back(memories_.WarmRows(type.out, num_workers, options.batch_limit));
    TypeView view;
    view.type = type.id;
    view.priority = type.priority;
    views_.push_back(view);
  }
  for (size_t w = 0; w < memory_of.size(); ++w) {
    for (const TypeShape& shape : shapes_) {
      // Each ready subgraph owns a row of its table, so there are never more of them.
      const int32_t capacity = memories_[memory_of[w]].arena->pool(shape.out).num_rows();
      queues_.push_back(
          std::make_unique<ReadyQueue>(shape, options.batch_limit, capacity, &tasks_[w]));
    }
  }
  calibration_ = std::make_unique<Calibration>(*model_, warm_rows_, options.batch_limit, memory_of,
                                               options.calibrate);
  for (const CellType& type : model_->types) {
    const int32_t most =
        type.max_batch > 0 ? std::min(type.max_batch, options.batch_limit) : options.batch_limit;
    for (int m = 0; m < memories_.size(); ++m) set_max_batch(m, type.id.value(), most);
  }
}

void Lane::set_max_batch(int memory, int type, int32_t max_batch) {
  int32_t least = max_batch;
  for (int w = 0; w < static_cast<int>(memory_of_.size()); ++w) {
    int32_t& here = max_batch_[static_cast<size_t>(w * num_types() + type)];
    if (memory_of_[static_cast<size_t>(w)] == memory) here = max_batch;
    if (here > 0) least = std::min(least, here);
  }
  type_counters(type).max_batch.store(least, std::memory_order_relaxed);
}

bool Lane::HasReady(int worker) const {
  for (int t = 0; t < num_types(); ++t) {
    if (queue(worker, t).ready() > 0) return true;
  }
  return false;
}

std::optional<int> Lane::Choose(int worker) {
  int overdue = -1, full = -1;
  int64_t longest = max_wait_tasks_;
  for (int t = 0; t < num_types(); ++t) {
    const ReadyQueue& q = queue(worker, t);
    if (q.waited() > longest) {
      longest = q.waited();
      overdue = t;
    }
    if (q.ready() >= max_batch(worker, t) &&
        (full < 0 ||
         shapes_[static_cast<size_t>(t)].priority > shapes_[static_cast<size_t>(full)].priority)) {
      full = t;
    }
  }
  if (overdue >= 0) return overdue;
  if (full >= 0) return full;
  for (int t = 0; t < num_types(); ++t) {
    TypeView& view = views_[static_cast<size_t>(t)];
    view.ready = queue(worker, t).ready();
    view.tasks_in_flight = queue(worker, t).tasks_in_flight();
    view.max_batch = max_batch(worker, t);
  }
  const std::optional<CellTypeId> choice = policy_->Choose(views_);
  if (!choice) return std::nullopt;
  Check(choice->valid() && choice->value() < num_types() &&
            queue(worker, choice->value()).ready() > 0,
        "a policy chose a type of which nothing is ready");
  return choice->value();
}

void Lane::PublishGauges(int num_workers) {
  counters_.SetGauges({line_.size(), line_.cells(), running_requests_, memories_.rows_used()});
  for (int t = 0; t < num_types(); ++t) {
    int64_t ready = 0;
    for (int w = 0; w < num_workers; ++w) ready += queue(w, t).ready();
    counters_.SetReady(t, ready);
  }
}

}  // namespace cellbatch
