// A lane's rules from what a configuration, a learner or a record says of them: names, descriptions and all.
#ifndef CELLBATCH_SCHEDULER_POLICY_MAKE_RULES_H_
#define CELLBATCH_SCHEDULER_POLICY_MAKE_RULES_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "scheduler/policy/join_spec.h"
#include "scheduler/policy/lane_rules.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

// Fails as MakePolicy does; INVALID_ARGUMENT where join pads sequences and the policy looks at single nodes.
absl::StatusOr<LaneRules> MakeRules(const PolicySpec& policy, const JoinSpec& join,
                                    size_t num_types);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_MAKE_RULES_H_
