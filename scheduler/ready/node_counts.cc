#include "scheduler/ready/node_counts.h"

#include <algorithm>

namespace cellbatch {
namespace {

static_assert(kMostDepth == Levels::kMost && NodeFacts::kMostHeight == Levels::kMost);

int32_t LevelOf(int64_t height) {
  return static_cast<int32_t>(std::clamp<int64_t>(height, 1, Levels::kMost));
}

}  // namespace

NodeCounts::NodeCounts(int num_workers, absl::Span<const TypeShape> shapes, Kept kept)
    : kept_(kept),
      types_(shapes.size()),
      here_(static_cast<size_t>(num_workers) * shapes.size()),
      at_depth_(kept.by_depth ? here_.size() : 0) {
  for (const TypeShape& shape : shapes) is_chain_.push_back(shape.is_chain());
}

NodeCounts::Part NodeCounts::PartOf(const ReadyEntry& entry, int32_t next) const {
  const NodeRecord& r = *entry.record;
  const NodeFacts& facts = r.facts;
  if (is_chain_[static_cast<size_t>(r.type)]) {
    return {1, int64_t{facts.depth} + next, LevelOf(int64_t{facts.height} - next)};
  }
  return {r.length - next, facts.depth, LevelOf(facts.height)};
}

void NodeCounts::Joined(const RequestBlock& block) {
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    const ReadyEntry entry = {const_cast<NodeRecord*>(&r), const_cast<RequestBlock*>(&block)};
    OfType& t = type(r.type);
    Gone(t, entry, r.length, 0);
    const Part part = PartOf(entry, 0);
    t.not_running.Add(part.level, part.nodes);
    if (!kept_.totals) continue;
    t.total += r.length;
    t.total_depths += DepthsOf(entry, 0, r.length);
  }
}

void NodeCounts::Left(const RequestBlock& block) {
  if (!kept_.totals) return;
  for (int32_t i = 0; i < block.num_records; ++i) {
    const NodeRecord& r = block.records[i];
    const ReadyEntry entry = {const_cast<NodeRecord*>(&r), const_cast<RequestBlock*>(&block)};
    OfType& t = type(r.type);
    t.total -= r.length;
    t.total_depths -= DepthsOf(entry, 0, r.length);
  }
}

// The sum over nodes from `from` to before `to`.
int64_t NodeCounts::DepthsOf(const ReadyEntry& entry, int32_t from, int32_t to) const {
  const int64_t first = entry.record->facts.depth;
  const int64_t depths = (int64_t{to} - from) * first;
  if (!is_chain_[static_cast<size_t>(entry.record->type)]) return depths;
  return depths + (int64_t{to} * (to - 1) - int64_t{from} * (from - 1)) / 2;
}

// Nodes from `from` to before `to` remain no longer; backwards: they do from now on.
void NodeCounts::Gone(OfType& type, const ReadyEntry& entry, int32_t from, int32_t to) {
  type.remaining -= int64_t{to} - from;
  type.remaining_depths -= DepthsOf(entry, from, to);
}

// `part` of it enters the FIFO, or (sign -1) leaves it.
void NodeCounts::CountFifo(int worker, const ReadyEntry& entry, const Part& part, int64_t sign) {
  const int32_t number = entry.record->type;
  Here& h = here(worker, number);
  h.fifo_depths += sign * part.nodes * part.depth;
  h.fifo.Add(part.level, sign * part.nodes);
  if (!kept_.by_depth) return;
  const size_t at = static_cast<size_t>(worker) * types_.size() + static_cast<size_t>(number);
  const auto depth = static_cast<int32_t>(std::min<int64_t>(part.depth, kMostDepth));
  at_depth_[at].Add(depth, sign * part.nodes);
}

void NodeCounts::Queued(int worker, const ReadyEntry& entry) {
  CountFifo(worker, entry, PartOf(entry, entry.record->next), 1);
}

void NodeCounts::Unqueued(int worker, const ReadyEntry& entry) {
  CountFifo(worker, entry, PartOf(entry, entry.record->next), -1);
}

void NodeCounts::Enter(Here& here, const ReadyEntry& entry, int32_t next) {
  const NodeFacts& facts = entry.record->facts;
  const int64_t tall = int64_t{facts.height} - next + here.steps;
  ++here.running;
  here.running_depths += int64_t{facts.depth} + next;
  if (here.running == 1 || tall > here.tallest) {
    here.tallest = tall;
    here.num_tallest = 1;
    here.search = false;
  } else if (tall == here.tallest) {
    ++here.num_tallest;
  }
}

void NodeCounts::Leave(Here& here, const ReadyEntry& entry, int32_t next) {
  const NodeFacts& facts = entry.record->facts;
  --here.running;
  here.running_depths -= int64_t{facts.depth} + next;
  if (int64_t{facts.height} - next + here.steps != here.tallest || here.search) return;
  here.search = --here.num_tallest == 0;
}

void NodeCounts::Step(OfType& type, Here& here) {
  if (here.running == 0) return;
  type.remaining -= here.running;
  type.remaining_depths -= here.running_depths;
  here.running_depths += here.running;
  ++here.steps;
}

void NodeCounts::Submitted(int worker, const TypeShape& shape, const TaskFacts& facts) {
  OfType& t = type(shape.type.value());
  Here& h = here(worker, shape.type.value());
  const auto leave_fifo = [&](const ReadyEntry& e) {
    const Part part = PartOf(e, e.record->next);
    CountFifo(worker, e, part, -1);
    t.not_running.Add(part.level, -part.nodes);
  };
  for (const TaskFacts::Reached& r : facts.stepped) {
    leave_fifo(r.entry);
    Gone(t, r.entry, r.entry.record->next, r.nodes);
    t.not_running.Add(PartOf(r.entry, r.nodes).level, 1);
  }
  for (const TaskFacts::Reached& r : facts.gave_way) {
    Leave(h, r.entry, r.nodes);
    t.not_running.Add(PartOf(r.entry, r.nodes).level, 1);
  }
  for (const ReadyEntry& e : facts.entered) {
    leave_fifo(e);
    Enter(h, e, e.record->next);
  }
  Step(t, h);
  const auto end = [&](const ReadyEntry& e) {
    leave_fifo(e);
    Gone(t, e, e.record->next, e.record->length);
  };
  for (const ReadyEntry& e : facts.awaiting) {
    if (kept_.by_depth) {
      end(e);
    } else {
      Leave(h, e, e.record->length);
    }
  }
  for (const ReadyEntry& e : facts.ended) {
    // A longer chain ran, be it that it entered with this task for its last node.
    if (shape.is_chain() && e.record->length > 1 && !kept_.by_depth) {
      Leave(h, e, e.record->length);
    } else {
      end(e);
    }
  }
  if (const ReadyEntry& e = facts.partly.entry; e.record != nullptr) {
    Part part = PartOf(e, e.record->next);
    part.nodes = facts.partly.nodes - e.record->next;
    CountFifo(worker, e, part, -1);
    t.not_running.Add(part.level, -part.nodes);
    Gone(t, e, e.record->next, facts.partly.nodes);
  }
}

void NodeCounts::Dropped(const ReadyEntry& entry) {
  const NodeRecord& r = *entry.record;
  OfType& t = type(r.type);
  if (r.state == NodeState::kEnded || r.state == NodeState::kAwaitingStop) return;
  if (r.state == NodeState::kRunning) {
    Leave(here(r.queue_worker, r.type), entry, r.next);
  } else {
    const Part part = PartOf(entry, r.next);
    t.not_running.Add(part.level, -part.nodes);
  }
  if (r.state == NodeState::kQueued) Unqueued(r.queue_worker, entry);
  Gone(t, entry, r.next, r.length);
}

void NodeCounts::Refresh(int worker, const ReadyQueue& queue) {
  Here& h = here(worker, queue.shape().type.value());
  if (h.search && h.running > 0) Search(h, queue.chains());
}

void NodeCounts::Search(Here& here, const RunningChains& chains) {
  here.search = false;
  here.num_tallest = 0;
  for (int32_t slot = 0; slot < chains.size(); ++slot) {
    const ReadyEntry e = chains.chain(slot);
    const int64_t tall = int64_t{e.record->facts.height} - chains.NextNode(slot) + here.steps;
    if (here.num_tallest > 0 && tall < here.tallest) continue;
    here.num_tallest = here.num_tallest > 0 && tall == here.tallest ? here.num_tallest + 1 : 1;
    here.tallest = tall;
  }
}

TypeNodes NodeCounts::View(int worker, int number) {
  const OfType& t = type(number);
  const int num_workers = static_cast<int>(here_.size() / types_.size());
  TypeNodes nodes;
  nodes.remaining = t.remaining;
  nodes.remaining_depths = t.remaining_depths;
  nodes.total = t.total;
  nodes.total_depths = t.total_depths;
  if (kept_.by_depth) {
    const Levels& depths =
        at_depth_[static_cast<size_t>(worker) * types_.size() + static_cast<size_t>(number)];
    nodes.least_depth = depths.bottom();
    if (nodes.least_depth >= 0) nodes.at_least_depth = depths.at(nodes.least_depth);
  }
  nodes.tallest = t.not_running.top();
  const Here& mine = here(worker, number);
  nodes.ready_depths = mine.fifo_depths + mine.running_depths;
  const auto level = [](const Here& h) { return h.running > 0 ? LevelOf(h.tallest - h.steps) : 0; };
  for (int w = 0; w < num_workers; ++w) {
    nodes.tallest = std::max(nodes.tallest, level(here(w, number)));
  }
  if (nodes.tallest == 0) return nodes;
  nodes.tops = t.not_running.at(nodes.tallest);
  nodes.ready_tops = mine.fifo.at(nodes.tallest);
  for (int w = 0; w < num_workers; ++w) {
    const Here& h = here(w, number);
    if (level(h) != nodes.tallest) continue;
    // Where the tallest are of height 1, all are.
    const int64_t tops = nodes.tallest == 1 ? h.running : h.num_tallest;
    nodes.tops += tops;
    if (w == worker) nodes.ready_tops += tops;
  }
  return nodes;
}

}  // namespace cellbatch
