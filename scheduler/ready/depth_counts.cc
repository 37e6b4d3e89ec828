#include "scheduler/ready/depth_counts.h"

#include <algorithm>

namespace cellbatch {

static_assert(kMostDepth == Levels::kMost);

DepthCounts::DepthCounts(int num_workers, absl::Span<const TypeShape> shapes, bool by_depth)
    : by_depth_(by_depth) {
  for (const TypeShape& shape : shapes) types_.push_back({.is_chain = shape.is_chain()});
  here_.resize(static_cast<size_t>(num_workers) * types_.size());
  if (by_depth) at_depth_.resize(here_.size());
}

void DepthCounts::Joined(const RequestBlock& block) {
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    OfType& t = type(r.type);
    const int64_t depths = DepthsOf(r, 0, r.length);
    t.remaining_depths += depths;
    t.total += r.length;
    t.total_depths += depths;
  }
}

void DepthCounts::Left(const RequestBlock& block) {
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    OfType& t = type(r.type);
    t.total -= r.length;
    t.total_depths -= DepthsOf(r, 0, r.length);
  }
}

// The sum over nodes from `from` to before `to`.
int64_t DepthCounts::DepthsOf(const NodeRecord& r, int32_t from, int32_t to) const {
  const int64_t depths = (int64_t{to} - from) * int64_t{r.facts.depth};
  if (!type(r.type).is_chain) return depths;
  return depths + (int64_t{to} * (to - 1) - int64_t{from} * (from - 1)) / 2;
}

// Nodes from `from` to before `to` remain no longer.
void DepthCounts::Gone(const NodeRecord& r, int32_t from, int32_t to) {
  type(r.type).remaining_depths -= DepthsOf(r, from, to);
}

// So many nodes of it are queued, or (sign -1) no longer; of a chain, the next one.
void DepthCounts::CountQueued(int worker, const NodeRecord& r, int32_t nodes, int64_t sign) {
  const bool chain = type(r.type).is_chain;
  const int64_t depth = int64_t{r.facts.depth} + (chain ? r.next : 0);
  const int64_t counted = sign * (chain ? 1 : nodes);
  const size_t place = Place(worker, r.type);
  here_[place].queued_depths += counted * depth;
  if (!by_depth_) return;
  at_depth_[place].Add(static_cast<int32_t>(std::min<int64_t>(depth, kMostDepth)), counted);
}

void DepthCounts::Enter(Here& here, const NodeRecord& r, int32_t next) {
  ++here.running;
  here.running_depths += int64_t{r.facts.depth} + next;
}

void DepthCounts::Leave(Here& here, const NodeRecord& r, int32_t next) {
  --here.running;
  here.running_depths -= int64_t{r.facts.depth} + next;
}

void DepthCounts::Submitted(int worker, const TypeShape& shape, const TaskFacts& facts) {
  OfType& t = type(shape.type.value());
  Here& here = here_[Place(worker, shape.type.value())];
  for (const TaskFacts::Reached& r : facts.stepped) {
    Unqueued(worker, *r.entry.record);
    Gone(*r.entry.record, r.entry.record->next, r.nodes);
  }
  for (const TaskFacts::Reached& r : facts.gave_way) Leave(here, *r.entry.record, r.nodes);
  for (const ReadyEntry& e : facts.entered) {
    Unqueued(worker, *e.record);
    Enter(here, *e.record, e.record->next);
  }
  t.remaining_depths -= here.running_depths;
  here.running_depths += here.running;
  const auto end = [&](const NodeRecord& r) {
    Unqueued(worker, r);
    Gone(r, r.next, r.length);
  };
  const bool chains = shape.is_chain() && !by_depth_;
  for (const ReadyEntry& e : facts.awaiting) {
    if (by_depth_) {
      end(*e.record);
    } else {
      Leave(here, *e.record, e.record->length);
    }
  }
  for (const ReadyEntry& e : facts.ended) {
    if (chains && e.record->length > 1) {
      Leave(here, *e.record, e.record->length);
    } else {
      end(*e.record);
    }
  }
  if (const NodeRecord* r = facts.partly.entry.record; r != nullptr) {
    CountQueued(worker, *r, facts.partly.nodes - r->next, -1);
    Gone(*r, r->next, facts.partly.nodes);
  }
}

void DepthCounts::Dropped(const NodeRecord& r) {
  if (r.state == NodeState::kEnded || r.state == NodeState::kAwaitingStop) return;
  if (r.state == NodeState::kRunning) Leave(here_[Place(r.queue_worker, r.type)], r, r.next);
  if (r.state == NodeState::kQueued) Unqueued(r.queue_worker, r);
  Gone(r, r.next, r.length);
}

void DepthCounts::View(int worker, int number, TypeNodes& nodes) const {
  const OfType& t = type(number);
  nodes.remaining_depths = t.remaining_depths;
  nodes.total = t.total;
  nodes.total_depths = t.total_depths;
  const Here& here = here_[Place(worker, number)];
  nodes.ready_depths = here.queued_depths + here.running_depths;
  if (!by_depth_) return;
  const Levels& depths = at_depth_[Place(worker, number)];
  nodes.least_depth = depths.bottom();
  nodes.at_least_depth = nodes.least_depth >= 0 ? depths.at(nodes.least_depth) : 0;
}

}  // namespace cellbatch
