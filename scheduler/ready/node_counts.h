// What a lane keeps of single nodes for its policy (policy/frontier.h, TypeNodes): heights, and depths where it reads
// them. Told of each change by the request processor, which makes the changes; the manager's.
#ifndef CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_
#define CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "scheduler/policy/frontier.h"
#include "scheduler/ready/depth_counts.h"
#include "scheduler/ready/height_counts.h"

namespace cellbatch {

class NodeCounts {
 public:
  struct Kept {
    bool depths = false;
    bool by_depth = false;  // the lane's policy picks depths, so no chain runs; implies depths
  };
  NodeCounts(int num_workers, absl::Span<const TypeShape> shapes, Kept kept)
      : heights_(num_workers, shapes, !kept.by_depth) {
    if (kept.depths) depths_.emplace(num_workers, shapes, kept.by_depth);
  }

  // A request, or its next piece: all of its nodes remain.
  void Joined(const RequestBlock& block) {
    heights_.Joined(block);
    if (depths_) [[unlikely]]
      depths_->Joined(block);
  }
  // A request, or its piece: nothing of it will be submitted any more.
  void Left(const RequestBlock& block) {
    if (depths_) [[unlikely]]
      depths_->Left(block);
  }
  void Queued(int worker, const NodeRecord& r) {
    heights_.Queued(worker, r);
    if (depths_) [[unlikely]]
      depths_->Queued(worker, r);
  }
  void Unqueued(int worker, const NodeRecord& r) {  // to be queued elsewhere
    heights_.Unqueued(worker, r);
    if (depths_) depths_->Unqueued(worker, r);
  }
  // A task of so many nodes, before its facts are applied to the records; then, as each record that ends with it changes,
  // its ends().
  void Submitted(int worker, const TypeShape& shape, const TaskFacts& facts, int32_t num_nodes) {
    heights_.Submitted(worker, shape, facts, num_nodes);
    if (depths_) [[unlikely]]
      depths_->Submitted(worker, shape, facts);
  }
  HeightCounts::Ends ends(int worker, const TypeShape& shape) {
    return HeightCounts::Ends(heights_, worker, shape);
  }
  // Where a queue may count what is pushed into it itself; null: all is to be told.
  int64_t* words(int worker, int type) {
    return depths_.has_value() ? nullptr : heights_.words(worker, type);
  }
  // Nothing more of it will be submitted: `next` is right, the state still what it was.
  void Dropped(const NodeRecord& r) {
    heights_.Dropped(r);
    if (depths_) depths_->Dropped(r);
  }

  // Of every worker's queue of a type, before the View of that type.
  void Refresh(int worker, const ReadyQueue& queue) { heights_.Refresh(worker, queue); }
  void View(int worker, int type, TypeNodes& nodes) {
    heights_.View(worker, type, nodes);
    if (depths_) depths_->View(worker, type, nodes);
  }

 private:
  HeightCounts heights_;
  std::optional<DepthCounts> depths_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_NODE_COUNTS_H_
