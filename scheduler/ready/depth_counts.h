// How deep what remains lies, and what is ready (policy/frontier.h, TypeNodes), for lanes whose policy looks at depths.
// Told of the same events as HeightCounts. O(1) a subgraph and a task, and O(subgraphs) a request that joins or has
// nothing left to submit. The manager's; nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_READY_DEPTH_COUNTS_H_
#define CELLBATCH_SCHEDULER_READY_DEPTH_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/policy/frontier.h"
#include "scheduler/ready/levels.h"
#include "scheduler/ready/ready_entry.h"
#include "scheduler/ready/type_shape.h"
#include "scheduler/task_facts.h"

namespace cellbatch {

class DepthCounts {
 public:
  // by_depth: what is ready is counted by depth, too; then the lane's policy picks depths, so no chain runs.
  DepthCounts(int num_workers, absl::Span<const TypeShape> shapes, bool by_depth);

  void Joined(const RequestBlock& block);
  void Left(const RequestBlock& block);
  void Queued(int worker, const NodeRecord& r) { CountQueued(worker, r, r.length - r.next, 1); }
  void Unqueued(int worker, const NodeRecord& r) { CountQueued(worker, r, r.length - r.next, -1); }
  void Submitted(int worker, const TypeShape& shape, const TaskFacts& facts);
  void Dropped(const NodeRecord& r);

  // total, the sums of depths, and (by_depth) the least.
  void View(int worker, int type, TypeNodes& nodes) const;

 private:
  struct OfType {
    int64_t remaining_depths = 0;
    int64_t total = 0, total_depths = 0;
    bool is_chain;
  };
  struct Here {
    int64_t queued_depths = 0;
    int64_t running = 0, running_depths = 0;  // depths: of the nodes that the next task takes
  };

  int64_t DepthsOf(const NodeRecord& r, int32_t from, int32_t to) const;
  void Gone(const NodeRecord& r, int32_t from, int32_t to);
  void CountQueued(int worker, const NodeRecord& r, int32_t nodes, int64_t sign);
  static void Enter(Here& here, const NodeRecord& r, int32_t next);
  static void Leave(Here& here, const NodeRecord& r, int32_t next);
  OfType& type(int number) { return types_[static_cast<size_t>(number)]; }
  const OfType& type(int number) const { return types_[static_cast<size_t>(number)]; }
  size_t Place(int worker, int type) const {
    return static_cast<size_t>(worker) * types_.size() + static_cast<size_t>(type);
  }

  const bool by_depth_;
  std::vector<OfType> types_;
  std::vector<Here> here_;  // by worker, type
  std::vector<Levels>
      at_depth_;  // the same: nodes that are queued, by depth; empty unless by_depth
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_DEPTH_COUNTS_H_
