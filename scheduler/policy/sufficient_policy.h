// The sufficient-condition heuristic of ED-Batch (section 2, Appendix A.2): the type of which the largest part of what
// could ever run next is ready now, |Frontier_a(G)| / |Frontier(G^a)|. Where that is all of it, some shortest sequence of
// batches begins with the type. Ties to more ready nodes, then to the higher id. O(types), exact; the counting of `heads`
// is what costs.
#ifndef CELLBATCH_SCHEDULER_POLICY_SUFFICIENT_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_SUFFICIENT_POLICY_H_

#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class SufficientPolicy final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  FrontierNeeds needs() const override { return FrontierNeeds::kHeads; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_SUFFICIENT_POLICY_H_
