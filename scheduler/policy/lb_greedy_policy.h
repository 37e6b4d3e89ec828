// LB-greedy: never, if it can be helped, a batch that does not lower the lower bound. The bound (ED-Batch, Appendix A.3)
// is the sum over types of the tallest chain of the type that remains; a batch lowers it by one if, and only if, every
// node at the top of such a tallest chain is in it. So:
//
//   (a) types of which all tops of the tallest are ready        reason `lowers_bound`
//   (b) else the one with the largest part of them ready        reason `most_tops`
//   (c) the largest part of what remains of the type ready; (d) the higher id
//
// As an option, among types of (a) the taller goes first: fewer batches on some graphs, more on others. O(types), exact.
#ifndef CELLBATCH_SCHEDULER_POLICY_LB_GREEDY_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_LB_GREEDY_POLICY_H_

#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class LbGreedyPolicy final : public Policy {
 public:
  struct Options {
    bool taller_first = false;
  };

  LbGreedyPolicy() = default;
  explicit LbGreedyPolicy(Options options) : options_(options) {}
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;
  FrontierNeeds needs() const override { return FrontierNeeds::kHeights; }

 private:
  const Options options_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_LB_GREEDY_POLICY_H_
