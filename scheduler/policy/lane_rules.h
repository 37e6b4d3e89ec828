// What decides for one lane; each part may be left out. To be given to Scheduler::AddModel.
#ifndef CELLBATCH_SCHEDULER_POLICY_LANE_RULES_H_
#define CELLBATCH_SCHEDULER_POLICY_LANE_RULES_H_

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/ids.h"
#include "scheduler/policy/join_rule.h"
#include "scheduler/policy/policy.h"
#include "scheduler/policy/steal_rule.h"

namespace cellbatch {

struct JoinSpec;
struct PolicySpec;

struct LaneRules {
  LaneRules() = default;
  LaneRules(std::nullptr_t) {}  // NOLINT: all as usual
  template <std::derived_from<Policy> P>
  LaneRules(std::unique_ptr<P> p) : policy(std::move(p)) {}             // NOLINT
  LaneRules(std::unique_ptr<const Policy> p) : policy(std::move(p)) {}  // NOLINT
  LaneRules(std::unique_ptr<const Policy> p, std::unique_ptr<const JoinRule> j)
      : policy(std::move(p)), join(std::move(j)) {}

  std::unique_ptr<const Policy> policy;  // null: Algorithm 1
  std::string
      policy_name;  // for people, as statistics show it ("fsm"); empty: "cellular", or "unnamed"
  std::string policy_about;                // where it comes from; may be empty
  std::unique_ptr<const JoinRule> join;    // null: CellularJoin
  std::string join_name;                   // as policy_name
  std::unique_ptr<const StealRule> steal;  // null: StealHalf
  std::vector<CellTypeId> may_wait;  // for their batch to fill (decider.h); part of the policy
  // What policy and join were made of, for records (make_rules.h). Null beside one of those: it is code, and a record of
  // this lane is not one that can be replayed.
  std::shared_ptr<const PolicySpec> policy_spec;
  std::shared_ptr<const JoinSpec> join_spec;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_LANE_RULES_H_
