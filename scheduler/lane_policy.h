// What decides for a lane, and what was decided by it: the one that it was made with, and after it those that it took over
// while it served (Scheduler::SetPolicy). Immutable but for its counters, whose one writer is the manager.
#ifndef CELLBATCH_SCHEDULER_LANE_POLICY_H_
#define CELLBATCH_SCHEDULER_LANE_POLICY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/lane_counters.h"
#include "scheduler/policy/decider.h"
#include "scheduler/policy/lane_rules.h"

namespace cellbatch {

struct LanePolicy {
  // Takes what of `rules` is about the policy.
  LanePolicy(LaneRules& rules, int64_t max_wait_tasks)
      : name(!rules.policy_name.empty() ? std::move(rules.policy_name)
             : rules.policy == nullptr  ? "cellular"
                                        : "unnamed"),
        about(std::move(rules.policy_about)),
        decider(std::move(rules.policy), max_wait_tasks, rules.may_wait),
        decisions(decider.reasons().size()) {}

  // What a lane keeps up for it: one that keeps the same goes on with it.
  bool AsksForTheSameAs(const LanePolicy& other) const {
    const auto more_than = [](const Decider& d, FrontierNeeds needs) { return d.needs() >= needs; };
    return decider.picks_depth() == other.decider.picks_depth() &&
           more_than(decider, FrontierNeeds::kHeights) ==
               more_than(other.decider, FrontierNeeds::kHeights) &&
           more_than(decider, FrontierNeeds::kNodes) ==
               more_than(other.decider, FrontierNeeds::kNodes);
  }
  // A task was formed, for that reason (Decider::reasons).
  void Decided(int reason) { AddTo<uint64_t>(decisions[static_cast<size_t>(reason)], 1); }

  const std::string name, about;
  const Decider decider;
  std::vector<std::atomic<uint64_t>> decisions;  // by reason
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_LANE_POLICY_H_
