// Which cell type runs next. Pure and immutable: no clock, no allocation, O(cell types), ties by id; one per lane
// (model version), shared by all workers. What stands around it (who was passed over too long, full batches, repeats) is
// the decider's; a policy sees the frontier and says a type, and why.
#ifndef CELLBATCH_SCHEDULER_POLICY_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_POLICY_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "cells/ids.h"
#include "scheduler/policy/frontier.h"

namespace cellbatch {

struct Choice {
  static constexpr int32_t kAnyDepth = -1;

  CellTypeId type;
  int reason = 0;  // a policy's: its place in reasons()
  int32_t depth =
      kAnyDepth;  // else only nodes of this depth: the others that are ready stay (picks_depth)
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Among the types of `frontier` with ready > 0, the one to form the next task of; nullopt if none.
  virtual std::optional<Choice> Choose(Frontier frontier) const = 0;
  // Names of the reasons it gives, as metrics have them ("idle_type"). They live as long as the policy.
  virtual absl::Span<const std::string_view> reasons() const = 0;
  // What it reads of the frontier beyond what is always kept.
  virtual FrontierNeeds needs() const { return {}; }
  // Whether more tasks of the type follow at once while there is room (MaxTasksToSubmit). Only Algorithm 1's do.
  virtual bool repeats_type() const { return false; }
  // Whether its choices name a depth, too. Chains of such a lane run node by node.
  virtual bool picks_depth() const { return false; }
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_POLICY_H_
