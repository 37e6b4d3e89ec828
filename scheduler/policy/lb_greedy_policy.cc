#include "scheduler/policy/lb_greedy_policy.h"

#include "scheduler/policy/best_ready.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"lowers_bound", "most_tops"};

bool Lowers(const TypeView& view) { return view.nodes.ready_tops == view.nodes.tops; }

}  // namespace

absl::Span<const std::string_view> LbGreedyPolicy::reasons() const { return kReasons; }

std::optional<Choice> LbGreedyPolicy::Choose(Frontier frontier) const {
  const TypeView* best = BestReady(frontier, [this](const TypeView& a, const TypeView& b) {
    const int tops =
        CompareFractions(a.nodes.ready_tops, a.nodes.tops, b.nodes.ready_tops, b.nodes.tops);
    if (tops != 0) return tops > 0;
    if (options_.taller_first && Lowers(a) && a.nodes.tallest != b.nodes.tallest) {
      return a.nodes.tallest > b.nodes.tallest;
    }
    return CompareFractions(a.ready, a.nodes.remaining, b.ready, b.nodes.remaining) >= 0;
  });
  if (best == nullptr) return std::nullopt;
  return Choice{best->type, Lowers(*best) ? 0 : 1};
}

}  // namespace cellbatch
