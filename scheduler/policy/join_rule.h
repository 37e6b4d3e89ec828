// Whether the request at the head of its lane's line may join a worker now. Who may not holds up those behind it: the
// line is first come, first served, or, where the rule says so (GraphBatching), a line for each bucket of lengths. Pure
// and immutable, O(root types); one per lane.
#ifndef CELLBATCH_SCHEDULER_POLICY_JOIN_RULE_H_
#define CELLBATCH_SCHEDULER_POLICY_JOIN_RULE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "scheduler/policy/frontier.h"

namespace cellbatch {

struct JoinView {
  // Of the types that the request begins with, what that worker has: type, ready, given_way, max_batch.
  absl::Span<const TypeView> roots;
  int64_t running = 0;     // requests of the lane that have joined and not left, on all workers
  int64_t joined_now = 0;  // of them, those that joined since tasks were last formed
};

// What a rule that lets batches of whole graphs run asks of its lane beside saying who joins (../graph_batch/graph_batch.h). As it
// is here: nothing, and a lane keeps nothing for it.
struct GraphBatching {
  // Up to which length every chain of a batch is computed, by cell type: its own; that of the longest in the batch; the
  // upper edge of that one's bucket.
  enum class Padding : uint8_t { kNone, kLongest, kBucket };
  Padding padding = Padding::kNone;
  // > 0: requests wait by length, those of lengths i * width + 1 to (i + 1) * width in bucket i, oldest first; a batch is
  // of one bucket, and the buckets that anybody waits in take turns.
  int32_t bucket_width = 0;
  // Who is done waits for the rest of its batch, and all are answered at once.
  bool leave_together = false;

  bool any() const { return padding != Padding::kNone || bucket_width > 0 || leave_together; }
};

class JoinRule {
 public:
  virtual ~JoinRule() = default;
  virtual bool MayJoin(const JoinView& view) const = 0;
  // Asked once, when the lane is made.
  virtual GraphBatching batching() const { return {}; }
};

// Cellular batching: at any time, while every type it begins with has less than two batches ready there. Chains that
// gave way do not count: they must not keep the line from moving till their end.
class CellularJoin final : public JoinRule {
 public:
  // count_given_way: they do, where every chain goes back to its queue after each node (policies that pick depths).
  explicit CellularJoin(bool count_given_way = false) : count_given_way_(count_given_way) {}
  bool MayJoin(const JoinView& view) const override {
    for (const TypeView& root : view.roots) {
      const int32_t given_way = count_given_way_ ? 0 : root.given_way;
      if (root.ready - given_way >= 2 * root.max_batch) return false;
    }
    return true;
  }

 private:
  const bool count_given_way_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_JOIN_RULE_H_
