// How many nodes of each type remain, how tall the tallest of them are, and how many of those are ready: what LB-greedy
// asks (policy/frontier.h, TypeNodes), and so every learned FSM, for one lane.
//
//   Joined -> blocked -> Queued -> Submitted (a part, or the end; a chain runs on in every task) -> gone
//                         |  ^            |
//                  Unqueued  +-- gave way-+      Dropped: cancelled or stopped, wherever it was
//
// Not running: counted by level, chains by their next node, sets by each of their nodes. What joins, becomes ready or
// is submitted is one addition for each node: a level's word holds how many remain there and how many of them are ready.
//
// The words are those of height_words.h, by worker and type: what remains is the sum of all workers' words, in any of which
// it may have been counted; what is ready is its worker's own. A queue that nothing else is to be told of counts what is
// pushed into it in its words itself (ReadyQueue::PushCounted).
//
// Running chains all move by one node a task, so their tallest stays the tallest: it is looked for again only when the
// last of the tallest has left. The top is looked for downwards when somebody asks, through levels that were filled one
// after the other, so O(1) a node in all. The manager's; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_HEIGHT_COUNTS_H_
#define CELLBATCH_SCHEDULER_READY_HEIGHT_COUNTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/policy/frontier.h"
#include "scheduler/ready/height_words.h"
#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/task_facts.h"

namespace cellbatch {

class HeightCounts {
 public:
  // chains_run: they do unless the lane's policy picks depths.
  HeightCounts(int num_workers, absl::Span<const TypeShape> shapes, bool chains_run);

  // A request, or its next piece: all of its nodes remain. O(levels of each type).
  void Joined(const RequestBlock& block);
  void Queued(int worker, const NodeRecord& r) { AddQueued(worker, r, 1); }
  void Unqueued(int worker, const NodeRecord& r) { AddQueued(worker, r, -1); }
  // A task of so many nodes, before its facts are applied to the records: all but those that end with it.
  void Submitted(int worker, const TypeShape& shape, const TaskFacts& facts, int32_t num_nodes);
  // Those, after that, each before its record changes.
  class Ends;
  // Nothing more of it will be submitted: `next` is right, the state still what it was.
  void Dropped(const NodeRecord& r);

  // Of every worker's queue of a type, before the View of that type.
  void Refresh(int worker, const ReadyQueue& queue);
  // remaining, tallest, tops, ready_tops.
  void View(int worker, int type, TypeNodes& nodes);
  int64_t* words(int worker, int type) {
    return words_.data() + Place(worker, type) * kHeightWords;
  }

 private:
  struct OfType {
    int64_t remaining = 0;
    int32_t top = 0;  // nothing that does not run remains above it
    bool is_chain;
  };
  struct Running {
    int64_t chains = 0;
    int64_t steps = 0;                     // tasks with running chains
    int64_t tallest = 0, num_tallest = 0;  // height + steps, which stays
    bool search = false;
  };

  HeightPart PartOf(const NodeRecord& r, int32_t next) const {
    return HeightPartOf(type(r.type).is_chain, r, next);
  }
  void AddQueued(int worker, const NodeRecord& r, int64_t sign) {
    const HeightPart part = PartOf(r, r.next);
    words(worker, r.type)[part.level] += sign * kReadyInWord * part.nodes;
  }
  void Remains(int type_number, int32_t level, int64_t nodes) {
    words(0, type_number)[level] += kRemainsInWord * nodes;
    OfType& t = type(type_number);
    t.top = std::max(t.top, level);
  }
  static int64_t ReadyOf(int64_t word) { return word & 0xffffffff; }
  int64_t RemainAt(int type, int32_t level) const;
  void Enter(Running& running, const NodeRecord& r, int32_t next);
  static void Leave(Running& running, const NodeRecord& r, int32_t next) {
    --running.chains;
    const int64_t tall = int64_t{r.facts.height} - next + running.steps;
    if (tall != running.tallest || running.search) return;
    running.search = --running.num_tallest == 0;
  }
  static void Search(Running& running, const RunningChains& chains);

  OfType& type(int number) { return types_[static_cast<size_t>(number)]; }
  const OfType& type(int number) const { return types_[static_cast<size_t>(number)]; }
  size_t Place(int worker, int type) const {
    return static_cast<size_t>(worker) * types_.size() + static_cast<size_t>(type);
  }
  Running& running(int worker, int type) { return running_[Place(worker, type)]; }

  const bool chains_run_;
  const int num_workers_;
  std::vector<OfType> types_;
  std::vector<Running> running_;  // by worker, type
  std::vector<int64_t> words_;    // by worker, type, level
};

// Once for every subgraph: inlined, and what is the same for all of a task is looked up once.
class HeightCounts::Ends {
 public:
  Ends(HeightCounts& counts, int worker, const TypeShape& shape)
      : words_(counts.words(worker, shape.type.value())),
        running_(counts.running(worker, shape.type.value())),
        is_chain_(shape.is_chain()),
        ran_(shape.is_chain() && counts.chains_run_) {}

  void operator()(const NodeRecord& r) {
    // A longer chain ran, be it that it entered with this task for its last node.
    if (ran_ && r.length > 1) return Leave(running_, r, r.length);
    const HeightPart part = HeightPartOf(is_chain_, r, r.next);
    words_[part.level] -= (kRemainsInWord + kReadyInWord) * part.nodes;
  }

 private:
  int64_t* const words_;
  Running& running_;
  const bool is_chain_, ran_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_HEIGHT_COUNTS_H_
