#include "scheduler/lane.h"

#include <algorithm>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

std::unique_ptr<GraphBatch> MakeBatch(const JoinRule& rule, const Model& model, int max_requests) {
  if (!rule.batching().any()) return nullptr;
  return std::make_unique<GraphBatch>(rule.batching(), static_cast<int>(model.types.size()),
                                      max_requests);
}

}  // namespace

Lane::Lane(int index, uint32_t serial, std::shared_ptr<const Model> model, LaneRules rules,
           std::vector<Loaded> loaded, absl::Span<const int> memory_of,
           const SchedulerOptions& options)
    : index_(index),
      serial_(serial),
      model_(std::move(model)),
      num_types_(static_cast<int>(model_->types.size())),
      max_wait_tasks_(std::max<int64_t>(options.max_wait_tasks,
                                        2 * static_cast<int64_t>(model_->types.size()))),
      policies_({std::make_shared<LanePolicy>(rules, max_wait_tasks_)}),
      policy_(policies_.front().get()),
      join_name_(!rules.join_name.empty() ? std::move(rules.join_name)
                 : rules.join == nullptr  ? "cellular"
                                          : "unnamed"),
      join_rule_(rules.join ? std::move(rules.join)
                            : std::make_unique<const CellularJoin>(decider().picks_depth())),
      steal_rule_(rules.steal ? std::move(rules.steal) : std::make_unique<const StealHalf>()),
      line_(options.max_requests,
            {model_->priority_levels, options.priority_ageing, &tasks_submitted_}),
      batch_(MakeBatch(*join_rule_, *model_, options.max_requests)),
      buckets_(batch_ == nullptr ? nullptr : batch_->buckets()),
      memories_(std::move(loaded)),
      share_(memories_.size(), static_cast<int>(model_->types.size()), model_->weight),
      counters_(static_cast<int>(model_->types.size())),
      tasks_(memory_of.size(), 0),
      memory_of_(memory_of.begin(), memory_of.end()),
      limits_(memory_of.size() * model_->types.size()) {
  const int num_workers = static_cast<int>(memory_of.size());
  for (const CellType& type : model_->types) {
    shapes_.emplace_back(type);
    warm_rows_.push_back(memories_.WarmRows(type.out, num_workers, options.batch_limit));
    TypeView view;
    view.type = type.id;
    view.priority = type.priority;
    view.min_batch = type.min_batch;
    views_.push_back(view);
  }
  root_views_.resize(views_.size());
  Check(!decider().picks_depth() || decider().needs() >= FrontierNeeds::kNodes,
        "a policy picks depths and does not ask for them");
  Check(batch_ == nullptr || !batch_->pads() || decider().needs() == FrontierNeeds::kReady,
        "a policy looks at single nodes, and padding has none");
  if (decider().needs() >= FrontierNeeds::kHeights) {
    nodes_ = std::make_unique<NodeCounts>(
        num_workers, shapes_,
        NodeCounts::Kept{.depths = decider().needs() >= FrontierNeeds::kNodes,
                         .by_depth = decider().picks_depth()});
  }
  MakeQueues(options);
  calibration_ = std::make_unique<Calibration>(*model_, warm_rows_, options.batch_limit, memory_of,
                                               options.calibrate);
  for (int w = 0; w < num_workers; ++w) {
    if (!LivesOn(w)) calibration_->WorkerFailed(w);  // it is waited for as little
  }
  for (const CellType& type : model_->types) {
    const int32_t most =
        type.max_batch > 0 ? std::min(type.max_batch, options.batch_limit) : options.batch_limit;
    const int32_t peak = std::max(most, std::min(type.peak_batch, options.batch_limit));
    for (int m = 0; m < memories_.size(); ++m) {
      if (InSet(memories_.lives_in(), m)) SetMaxBatch(m, type.id.value(), most, peak);
    }
  }
}

void Lane::MakeQueues(const SchedulerOptions& options) {
  const uint64_t* const clock = model_->priority_levels > 1 ? &tasks_submitted_ : nullptr;
  for (size_t w = 0; w < memory_of_.size(); ++w) {
    const bool lives_there = LivesOn(static_cast<int>(w));
    for (const TypeShape& shape : shapes_) {
      // Each ready subgraph owns a row of its table, so there are never more of them.
      const int32_t capacity =
          lives_there ? memories_[memory_of_[w]].arena->pool(shape.out).num_rows() : 0;
      int64_t* const words =
          counts_nodes() ? nodes_->words(static_cast<int>(w), shape.type.value()) : nullptr;
      queues_.push_back(std::make_unique<ReadyQueue>(shape, options.batch_limit, capacity,
                                                     options.few_tasks_in_flight, &tasks_[w], clock,
                                                     counts_nodes(), words));
    }
  }
}

void Lane::ShowPolicy(std::shared_ptr<LanePolicy> policy) {
  const std::lock_guard lock(policies_mutex_);
  policies_.push_back(std::move(policy));
}

std::vector<std::shared_ptr<const LanePolicy>> Lane::Policies() const {
  const std::lock_guard lock(policies_mutex_);
  return {policies_.begin(), policies_.end()};
}

void Lane::SetMaxBatch(int memory, int type, int32_t knee, int32_t peak) {
  for (int w = 0; w < static_cast<int>(memory_of_.size()); ++w) {
    if (memory_of_[static_cast<size_t>(w)] != memory) continue;
    limits_[static_cast<size_t>(w * num_types() + type)].Set(knee, peak);
  }
}

void Lane::JoinedBatch(const RequestBlock& block) {
  if (!batch_->pads()) return;
  if (running_requests_ == 1) batch_->Begin();
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    if (shapes_[static_cast<size_t>(r.type)].is_chain()) batch_->Add(r.type, r.length);
  }
  PadChains();
}

// On every worker: they may be stolen.
void Lane::PadChains() {
  for (int w = 0; w < static_cast<int>(memory_of_.size()); ++w) {
    const LoadedModel* const rows = memories_[memory_of_[static_cast<size_t>(w)]].model.get();
    if (rows == nullptr) continue;  // its memory has no device left
    for (int t = 0; t < num_types(); ++t) {
      ReadyQueue& q = queue(w, t);
      if (q.shape().is_chain()) {
        q.chains().PadTo(batch_->padded_to(t), rows->trash_row(q.shape().out));
      }
    }
  }
}

bool Lane::HasReady(int worker) const {
  for (int t = 0; t < num_types(); ++t) {
    if (queue(worker, t).ready() > 0 && queue(worker, t).MayRun()) return true;
  }
  return false;
}

Frontier Lane::LookAt(int worker) {
  for (int t = 0; t < num_types(); ++t) {
    const ReadyQueue& q = queue(worker, t);
    TypeView& view = views_[static_cast<size_t>(t)];
    view.ready = q.ready();
    view.tasks_in_flight = q.tasks_in_flight();
    view.max_batch = max_batch(worker, t);
    view.given_way = q.fifo().given_way();
    view.waited = q.waited();
  }
  if (nodes_ != nullptr) LookAtNodes(worker);
  return views_;
}

Frontier Lane::LookToDecide(int worker) {
  LookAt(worker);
  for (int t = 0; t < num_types(); ++t) {
    if (!queue(worker, t).MayRun()) [[unlikely]]
      views_[static_cast<size_t>(t)].Hide();
  }
  if (decider().any_may_wait()) [[unlikely]]
    decider().Hold(absl::MakeSpan(views_));
  return views_;
}

void Lane::LookAtNodes(int worker) {
  for (int t = 0; t < num_types(); ++t) {
    for (size_t w = 0; w < tasks_.size(); ++w) {
      nodes_->Refresh(static_cast<int>(w), queue(static_cast<int>(w), t));
    }
    TypeView& view = views_[static_cast<size_t>(t)];
    nodes_->View(worker, t, view.nodes);
    view.narrow_tasks = queue(worker, t).narrow_tasks();
  }
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
