// Decides, for one lane, which type a worker runs next, and why:
//
//   overdue      a type that was passed over for more than max_wait_tasks tasks of the lane there; the longest
//   full_batch   of those with a full batch ready, the one of highest priority; of equals the last, for models name their
//                types from what reads requests to what answers: who is nearly done is not held up by who has just come
//   (policy's)   else what the lane's policy says, for a reason of its own
//                (of a policy that picks depths: the least depth of the type, unless too many tasks in a row have left others
//                behind for theirs: then all depths, as overdue)
//   repeat       more of the type just chosen, while the policy repeats and batches stay >= min_batch
//
// O(types), allocates nothing. Reasons are numbered: these three, then the policy's.
#ifndef CELLBATCH_SCHEDULER_POLICY_DECIDER_H_
#define CELLBATCH_SCHEDULER_POLICY_DECIDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class Decider {
 public:
  static constexpr int kOverdue = 0, kFullBatch = 1, kRepeat = 2, kFirstOfPolicy = 3;

  // policy null: Algorithm 1.
  Decider(std::unique_ptr<const Policy> policy, int64_t max_wait_tasks);

  // None: nothing is ready.
  std::optional<Choice> Decide(Frontier frontier) const;
  // Whether another task of the type follows at once, with so many of its nodes ready.
  bool Repeats(int32_t ready, int32_t min_batch) const { return repeats_ && ready >= min_batch; }
  FrontierNeeds needs() const { return policy_->needs(); }
  bool picks_depth() const { return picks_depth_; }
  const std::vector<std::string_view>& reasons() const { return reasons_; }

 private:
  std::optional<Choice> OfPolicy(Frontier frontier) const;
  std::optional<Choice> DecideDepth(Frontier frontier) const;

  const std::unique_ptr<const Policy> policy_;
  const int64_t max_wait_tasks_;
  const bool repeats_, picks_depth_;
  std::vector<std::string_view> reasons_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_DECIDER_H_
