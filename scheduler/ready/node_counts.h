// What follows from single nodes' depth and height (policy/frontier.h, TypeNodes), for one lane whose policy asks for
// it: kept up at each change, told by the request processor, which makes the changes.
//
//   Joined -> blocked -> Queued -> Submitted (a part, or the end; a chain runs on in every task) -> gone
//                         |  ^            |
//                  Unqueued  +-- gave way-+      Dropped: cancelled or stopped, wherever it was
//
// Not running: counted by level, chains by their next node, sets by each of their nodes. Running chains all move by one
// node a task, so their tallest stays the tallest: it is looked for again only when the last of the tallest has left.
// O(1) a subgraph and O(1) a task, but for that search. The manager's; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_
#define CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/policy/frontier.h"
#include "scheduler/ready/levels.h"
#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/ready_queue.h"
#include "scheduler/task_facts.h"

namespace cellbatch {

class NodeCounts {
 public:
  // What costs more than the rest is kept where it is read. by_depth: the lane's policy picks depths, so no chain runs.
  struct Kept {
    bool totals = false, by_depth = false;
  };
  NodeCounts(int num_workers, absl::Span<const TypeShape> shapes, Kept kept);

  // A request, or its next piece: all of its nodes remain.
  void Joined(const RequestBlock& block);
  void Queued(int worker, const ReadyEntry& entry);
  void Unqueued(int worker, const ReadyEntry& entry);  // to be queued elsewhere
  // Before the facts are applied to the records.
  void Submitted(int worker, const TypeShape& shape, const TaskFacts& facts);
  // Nothing more of it will be submitted: `next` is right, the state still what it was.
  void Dropped(const ReadyEntry& entry);

  // A request, or its piece: nothing of it will be submitted any more. O(subgraphs), if totals are kept.
  void Left(const RequestBlock& block);

  // Of every worker's queue of a type, before the View of that type.
  void Refresh(int worker, const ReadyQueue& queue);
  TypeNodes View(int worker, int type);

 private:
  // A subgraph that does not run: as many nodes of that depth and level could go into a task.
  struct Part {
    int64_t nodes;
    int64_t depth;
    int32_t level;
  };
  struct OfType {
    int64_t remaining = 0, remaining_depths = 0;
    int64_t total = 0, total_depths = 0;
    Levels not_running;
  };
  struct Here {
    int64_t fifo_depths = 0;
    Levels fifo;
    int64_t running = 0, running_depths = 0;  // depths: of the nodes that the next task takes
    int64_t steps = 0;                        // tasks with running chains
    int64_t tallest = 0, num_tallest = 0;     // of running ones: height + steps, which stays
    bool search = false;
  };

  Part PartOf(const ReadyEntry& entry, int32_t next) const;
  int64_t DepthsOf(const ReadyEntry& entry, int32_t from, int32_t to) const;
  void Gone(OfType& type, const ReadyEntry& entry, int32_t from, int32_t to);
  void CountFifo(int worker, const ReadyEntry& entry, const Part& part, int64_t sign);
  void Enter(Here& here, const ReadyEntry& entry, int32_t next);
  void Leave(Here& here, const ReadyEntry& entry, int32_t next);
  void Step(OfType& type, Here& here);
  void Search(Here& here, const RunningChains& chains);
  OfType& type(int type) { return types_[static_cast<size_t>(type)]; }
  Here& here(int worker, int type) {
    return here_[static_cast<size_t>(worker) * types_.size() + static_cast<size_t>(type)];
  }

  const Kept kept_;
  std::vector<bool> is_chain_;  // by type
  std::vector<OfType> types_;
  std::vector<Here> here_;        // by worker, type
  std::vector<Levels> at_depth_;  // the same: nodes in the FIFO by depth; empty unless by_depth
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_
