#include "scheduler/policy/depth_policy.h"

#include "scheduler/policy/best_ready.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"least_depth"};

}  // namespace

absl::Span<const std::string_view> DepthPolicy::reasons() const { return kReasons; }

std::optional<Choice> DepthPolicy::Choose(Frontier frontier) const {
  const TypeView* best = BestReady(frontier, [](const TypeView& a, const TypeView& b) {
    return a.nodes.least_depth < b.nodes.least_depth;
  });
  if (best == nullptr) return std::nullopt;
  return Choice{best->type, 0, best->nodes.least_depth};
}

}  // namespace cellbatch
