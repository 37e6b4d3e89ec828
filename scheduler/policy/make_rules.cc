#include "scheduler/policy/make_rules.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cellbatch {

absl::StatusOr<LaneRules> MakeRules(const PolicySpec& policy, const JoinSpec& join,
                                    size_t num_types) {
  absl::StatusOr<std::unique_ptr<const Policy>> made = MakePolicy(policy, num_types);
  if (!made.ok()) return made.status();
  const bool pads = join.batching.padding != GraphBatching::Padding::kNone;
  if (pads && (*made)->needs() != FrontierNeeds::kReady) {
    return absl::InvalidArgumentError(absl::StrCat("policy ", std::string(Name(policy.kind)),
                                                   " looks at single nodes, and joins (",
                                                   Name(join), ") pad sequences"));
  }
  LaneRules rules(*std::move(made), MakeJoinRule(join));
  rules.policy_name = Name(policy.kind);
  rules.policy_about = policy.about;
  for (const CellTypeId type : policy.may_wait) {
    if (!type.valid() || static_cast<size_t>(type.value()) >= num_types) {
      return absl::InvalidArgumentError(
          absl::StrCat("cell type ", type.value(), " may wait, there are ", num_types));
    }
  }
  rules.may_wait = policy.may_wait;
  rules.join_name = Name(join);
  rules.policy_spec = std::make_shared<const PolicySpec>(policy);
  rules.join_spec = std::make_shared<const JoinSpec>(join);
  return rules;
}

}  // namespace cellbatch
