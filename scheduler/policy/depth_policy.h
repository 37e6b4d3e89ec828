// Depth-based batching (TensorFlow Fold, Looks et al. 2017; DyNet's --dynet-autobatch 2; ACRoBat, which computes depths
// while it unfolds): the ready nodes of least depth, one type after the other, ties to the lower id. It picks a type and
// a depth; ready nodes of other depths stay. O(types).
#ifndef CELLBATCH_SCHEDULER_POLICY_DEPTH_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_DEPTH_POLICY_H_

#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class DepthPolicy final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  FrontierNeeds needs() const override { return FrontierNeeds::kNodes; }
  bool picks_depth() const override { return true; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_DEPTH_POLICY_H_
