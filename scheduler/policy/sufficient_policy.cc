#include "scheduler/policy/sufficient_policy.h"

#include "scheduler/policy/best_ready.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"sufficient", "largest_part"};

}  // namespace

absl::Span<const std::string_view> SufficientPolicy::reasons() const { return kReasons; }

std::optional<Choice> SufficientPolicy::Choose(Frontier frontier) const {
  const TypeView* best = BestReady(frontier, [](const TypeView& a, const TypeView& b) {
    const int part = CompareFractions(a.ready, a.nodes.heads, b.ready, b.nodes.heads);
    return part != 0 ? part > 0 : a.ready >= b.ready;
  });
  if (best == nullptr) return std::nullopt;
  return Choice{best->type, best->ready == best->nodes.heads ? 0 : 1};
}

}  // namespace cellbatch
