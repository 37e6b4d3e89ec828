// Policies that only tests use: what the scheduler is given so that it is seen to ask nothing of the ones it knows.
#ifndef CELLBATCH_SCHEDULER_POLICY_TEST_POLICIES_H_
#define CELLBATCH_SCHEDULER_POLICY_TEST_POLICIES_H_

#include <optional>
#include <string_view>

#include "scheduler/policy/policy.h"

namespace cellbatch::policy_testing {

// DyNet's agenda: the type whose remaining nodes lie least deep in the mean.
class LowestMeanDepth final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override {
    const TypeView* best = nullptr;
    for (const TypeView& view : frontier) {
      if (view.ready > 0 && (best == nullptr || Mean(view) < Mean(*best))) best = &view;
    }
    if (best == nullptr) return std::nullopt;
    return Choice{best->type};
  }
  absl::Span<const std::string_view> reasons() const override { return kReasons; }
  FrontierNeeds needs() const override { return FrontierNeeds::kNodes; }

 private:
  static constexpr std::string_view kReasons[] = {"lowest_depth"};
  static double Mean(const TypeView& view) {
    return static_cast<double>(view.nodes.remaining_depths) /
           static_cast<double>(view.nodes.remaining);
  }
};

// The heart of LB-greedy: a type of which all tallest nodes are ready, else the one with the tallest.
class TallestTop final : public Policy {
 public:
  std::optional<Choice> Choose(Frontier frontier) const override {
    const TypeView* best = nullptr;
    bool best_reduces = false;
    for (const TypeView& view : frontier) {
      if (view.ready == 0) continue;
      const bool reduces = view.nodes.ready_tops == view.nodes.tops;
      const bool better = best == nullptr || (reduces && !best_reduces) ||
                          (reduces == best_reduces && view.nodes.tallest > best->nodes.tallest);
      if (!better) continue;
      best = &view;
      best_reduces = reduces;
    }
    if (best == nullptr) return std::nullopt;
    return Choice{best->type, best_reduces ? 0 : 1};
  }
  absl::Span<const std::string_view> reasons() const override { return kReasons; }
  FrontierNeeds needs() const override { return FrontierNeeds::kNodes; }

 private:
  static constexpr std::string_view kReasons[] = {"reduces", "tallest"};
};

}  // namespace cellbatch::policy_testing

#endif  // CELLBATCH_SCHEDULER_POLICY_TEST_POLICIES_H_
