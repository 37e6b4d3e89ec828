#include "scheduler/policy/make_rules.h"

#include <memory>
#include <utility>

namespace cellbatch {

absl::StatusOr<LaneRules> MakeRules(const PolicySpec& policy, const JoinSpec& join,
                                    size_t num_types) {
  absl::StatusOr<std::unique_ptr<const Policy>> made = MakePolicy(policy, num_types);
  if (!made.ok()) return made.status();
  LaneRules rules(*std::move(made), MakeJoinRule(join));
  rules.policy_name = Name(policy.kind);
  rules.policy_about = policy.about;
  rules.join_name = Name(join);
  rules.policy_spec = std::make_shared<const PolicySpec>(policy);
  rules.join_spec = std::make_shared<const JoinSpec>(join);
  return rules;
}

}  // namespace cellbatch
