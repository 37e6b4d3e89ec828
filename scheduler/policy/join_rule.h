// Whether the request at the head of its lane's line may join a worker now. Who may not holds up those behind it: the
// line is first come, first served. Pure and immutable, O(root types); one per lane.
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

class JoinRule {
 public:
  virtual ~JoinRule() = default;
  virtual bool MayJoin(const JoinView& view) const = 0;
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
