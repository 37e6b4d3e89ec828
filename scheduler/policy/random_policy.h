// Any type with something ready, each as likely: what a policy has to beat. Pure like the others, so its dice are a hash
// of the seed and of what the frontier says is ready: the same frontier twice gets the same choice. O(types).
#ifndef CELLBATCH_SCHEDULER_POLICY_RANDOM_POLICY_H_
#define CELLBATCH_SCHEDULER_POLICY_RANDOM_POLICY_H_

#include <cstdint>
#include <optional>

#include "scheduler/policy/policy.h"

namespace cellbatch {

class RandomPolicy final : public Policy {
 public:
  explicit RandomPolicy(uint64_t seed) : seed_(seed) {}
  std::optional<Choice> Choose(Frontier frontier) const override;
  absl::Span<const std::string_view> reasons() const override;

 private:
  const uint64_t seed_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_RANDOM_POLICY_H_
