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
// Before all of them, types that may wait (nothing recurrent reads them: cells/recurrent_columns.h) do, and are seen as if
// nothing of them were ready, while anything else is ready there:
//
//   nodes ready
//   max_batch |*                      full: it need not wait. The longer it has waited, the less of a batch is enough,
//             |  *    does not wait   so that nobody waits for more than max_wait_tasks tasks for company alone, and
//             |    *                  half a batch for half as many
//             | waits *
//             +---------*---- waited
//                    max_wait_tasks
//
// O(types), allocates nothing. Reasons are numbered: these three, then the policy's.
#ifndef CELLBATCH_SCHEDULER_POLICY_DECIDER_H_
#define CELLBATCH_SCHEDULER_POLICY_DECIDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "cells/ids.h"
#include "scheduler/policy/policy.h"

namespace cellbatch {

class Decider {
 public:
  static constexpr int kOverdue = 0, kFullBatch = 1, kRepeat = 2, kFirstOfPolicy = 3;

  // policy null: Algorithm 1. `may_wait`: types that do, by id; most models have none.
  Decider(std::unique_ptr<const Policy> policy, int64_t max_wait_tasks,
          absl::Span<const CellTypeId> may_wait = {});

  bool any_may_wait() const { return !may_wait_.empty(); }
  // Takes what waits out of what is ready. If all that is ready would wait, nothing does.
  void Hold(absl::Span<TypeView> frontier) const;
  // None: nothing is ready. REQUIRES: what waits was held.
  std::optional<Choice> Decide(Frontier frontier) const;
  // The least nodes that another task of the type may have, to follow at once (Repeats): less waits.
  int32_t LeastRepeated(CellTypeId type, int32_t min_batch, int32_t max_batch) const {
    return MayWait(type) ? max_batch : min_batch;
  }
  // Whether another task of the type follows at once, with so many of its nodes ready.
  bool Repeats(int32_t ready, int32_t min_batch) const { return repeats_ && ready >= min_batch; }
  FrontierNeeds needs() const { return policy_->needs(); }
  bool picks_depth() const { return picks_depth_; }
  const std::vector<std::string_view>& reasons() const { return reasons_; }

 private:
  bool MayWait(CellTypeId type) const {
    const auto t = static_cast<size_t>(type.value());
    return t < may_wait_.size() && may_wait_[t];
  }
  bool Waits(const TypeView& view) const;
  std::optional<Choice> OfPolicy(Frontier frontier) const;
  std::optional<Choice> DecideDepth(Frontier frontier) const;

  const std::unique_ptr<const Policy> policy_;
  const int64_t max_wait_tasks_;
  const bool repeats_, picks_depth_;
  std::vector<std::string_view> reasons_;
  std::vector<bool> may_wait_;  // by type, the last that may being the last; empty: none may
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_DECIDER_H_
