// What a lane keeps whose rule of joining lets batches of whole graphs run (policy/whole_graphs.h), beside what every
// lane keeps: who waits by length, how long the chains of the batch that runs are computed, and who of it is done and
// waits for the rest. Lanes whose rule asks for none of this have none of it.
//
// The manager's alone. Nothing allocates after construction.
#ifndef CELLBATCH_SCHEDULER_GRAPH_BATCH_GRAPH_BATCH_H_
#define CELLBATCH_SCHEDULER_GRAPH_BATCH_GRAPH_BATCH_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "scheduler/graph_batch/length_buckets.h"
#include "scheduler/policy/join_rule.h"
#include "scheduler/request_block.h"

namespace cellbatch {

class GraphBatch {
 public:
  GraphBatch(const GraphBatching& what, int num_types, int max_requests);

  bool pads() const { return what_.padding != GraphBatching::Padding::kNone; }
  bool leaves_together() const { return what_.leave_together; }
  LengthBuckets* buckets() { return buckets_ ? &*buckets_ : nullptr; }
  const LengthBuckets* buckets() const { return buckets_ ? &*buckets_ : nullptr; }

  // Another batch: no chain of it is known yet.
  void Begin();
  // It has a chain of `length` nodes of that type.
  void Add(int type, int32_t length);
  // So many nodes of each chain of that type are computed; 0: none is known.
  int32_t padded_to(int type) const { return padded_to_[static_cast<size_t>(type)]; }

  // By RequestBlock::next_leaver, in the order in which they were done.
  void Park(RequestBlock& block);
  int64_t parked() const { return parked_; }
  // The first of them; none is parked then.
  RequestBlock* TakeParked();

 private:
  const GraphBatching what_;
  std::optional<LengthBuckets> buckets_;
  std::vector<int32_t> padded_to_;  // by type
  RequestBlock *first_parked_ = nullptr, *last_parked_ = nullptr;
  int64_t parked_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_GRAPH_BATCH_GRAPH_BATCH_H_
