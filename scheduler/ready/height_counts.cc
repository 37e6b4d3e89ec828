#include "scheduler/ready/height_counts.h"

namespace cellbatch {
namespace {

int32_t LevelOf(int64_t height) {
  return static_cast<int32_t>(std::clamp<int64_t>(height, 1, NodeFacts::kMostHeight));
}

}  // namespace

HeightCounts::HeightCounts(int num_workers, absl::Span<const TypeShape> shapes, bool chains_run)
    : chains_run_(chains_run), num_workers_(num_workers) {
  for (const TypeShape& shape : shapes) types_.push_back({.is_chain = shape.is_chain()});
  running_.resize(static_cast<size_t>(num_workers) * types_.size());
  words_.resize(running_.size() * kHeightWords);
}

void HeightCounts::Joined(const RequestBlock& block) {
  const BlockHeights heights = block.heights();
  for (const BlockHeights::Nodes& n : heights.nodes) type(n.type).remaining += n.count;
  for (const BlockHeights::Tops& t : heights.tops) Remains(t.type, t.level, t.count);
}

void HeightCounts::Enter(Running& running, const NodeRecord& r, int32_t next) {
  const int64_t tall = int64_t{r.facts.height} - next + running.steps;
  ++running.chains;
  if (running.chains == 1 || tall > running.tallest) {
    running.tallest = tall;
    running.num_tallest = 1;
    running.search = false;
  } else if (tall == running.tallest) {
    ++running.num_tallest;
  }
}

void HeightCounts::Submitted(int worker, const TypeShape& shape, const TaskFacts& facts,
                             int32_t num_nodes) {
  const int number = shape.type.value();
  int64_t* const mine = words(worker, number);
  Running& run = running(worker, number);
  type(number).remaining -= num_nodes;
  const auto gone = [&](const NodeRecord& r) {
    const HeightPart part = PartOf(r, r.next);
    mine[part.level] -= (kRemainsInWord + kReadyInWord) * part.nodes;
  };
  const auto waits = [&](const TaskFacts::Reached& r) {
    Remains(number, PartOf(*r.entry.record, r.nodes).level, 1);
  };
  for (const TaskFacts::Reached& r : facts.stepped) {
    gone(*r.entry.record);
    waits(r);
  }
  for (const TaskFacts::Reached& r : facts.gave_way) {
    Leave(run, *r.entry.record, r.nodes);
    waits(r);
  }
  for (const ReadyEntry& e : facts.entered) {
    gone(*e.record);
    Enter(run, *e.record, e.record->next);
  }
  if (run.chains > 0) ++run.steps;
  for (const ReadyEntry& e : facts.awaiting) {
    if (chains_run_) {
      Leave(run, *e.record, e.record->length);
    } else {
      gone(*e.record);
    }
  }
  if (const NodeRecord* r = facts.partly.entry.record; r != nullptr) {
    mine[PartOf(*r, r->next).level] -=
        (kRemainsInWord + kReadyInWord) * (facts.partly.nodes - r->next);
  }
}

void HeightCounts::Dropped(const NodeRecord& r) {
  if (r.state == NodeState::kEnded || r.state == NodeState::kAwaitingStop) return;
  type(r.type).remaining -= r.length - r.next;
  if (r.state == NodeState::kRunning) {
    Leave(running(r.queue_worker, r.type), r, r.next);
    return;
  }
  const HeightPart part = PartOf(r, r.next);
  words(0, r.type)[part.level] -= kRemainsInWord * part.nodes;
  if (r.state == NodeState::kQueued) Unqueued(r.queue_worker, r);
}

void HeightCounts::Refresh(int worker, const ReadyQueue& queue) {
  Running& run = running(worker, queue.shape().type.value());
  if (run.search && run.chains > 0) Search(run, queue.chains());
}

void HeightCounts::Search(Running& running, const RunningChains& chains) {
  running.search = false;
  running.num_tallest = 0;
  for (int32_t slot = 0; slot < chains.size(); ++slot) {
    const NodeRecord& r = *chains.chain(slot).record;
    const int64_t tall = int64_t{r.facts.height} - chains.NextNode(slot) + running.steps;
    if (running.num_tallest > 0 && tall < running.tallest) continue;
    running.num_tallest =
        running.num_tallest > 0 && tall == running.tallest ? running.num_tallest + 1 : 1;
    running.tallest = tall;
  }
}

int64_t HeightCounts::RemainAt(int type, int32_t level) const {
  int64_t sum = 0;
  for (int w = 0; w < num_workers_; ++w) {
    sum += words_[Place(w, type) * kHeightWords + static_cast<size_t>(level)];
  }
  return (sum - ReadyOf(sum)) / kRemainsInWord;
}

void HeightCounts::View(int worker, int number, TypeNodes& nodes) {
  OfType& t = type(number);
  while (t.top > 0 && RemainAt(number, t.top) == 0) --t.top;
  nodes.remaining = t.remaining;
  nodes.tallest = t.top;
  const auto level = [](const Running& run) {
    return run.chains > 0 ? LevelOf(run.tallest - run.steps) : 0;
  };
  for (int w = 0; w < num_workers_; ++w) {
    nodes.tallest = std::max(nodes.tallest, level(running(w, number)));
  }
  nodes.tops = nodes.ready_tops = 0;
  if (nodes.tallest == 0) return;
  nodes.tops = RemainAt(number, nodes.tallest);
  nodes.ready_tops = ReadyOf(words(worker, number)[nodes.tallest]);
  for (int w = 0; w < num_workers_; ++w) {
    const Running& run = running(w, number);
    if (level(run) != nodes.tallest) continue;
    // Where the tallest are of height 1, all are.
    const int64_t tops = nodes.tallest == 1 ? run.chains : run.num_tallest;
    nodes.tops += tops;
    if (w == worker) nodes.ready_tops += tops;
  }
}

}  // namespace cellbatch
