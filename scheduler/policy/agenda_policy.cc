#include "scheduler/policy/agenda_policy.h"

#include "scheduler/policy/best_ready.h"

namespace cellbatch {
namespace {

constexpr std::string_view kReasons[] = {"lowest_mean_depth"};

bool LessDeep(const TypeNodes& a, const TypeNodes& b, AgendaMean mean) {
  return mean == AgendaMean::kWholeGraph
             ? CompareFractions(a.total_depths, a.total, b.total_depths, b.total) < 0
             : CompareFractions(a.remaining_depths, a.remaining, b.remaining_depths, b.remaining) <
                   0;
}

}  // namespace

absl::Span<const std::string_view> AgendaPolicy::reasons() const { return kReasons; }

std::optional<Choice> AgendaPolicy::Choose(Frontier frontier) const {
  const TypeView* best = BestReady(frontier, [this](const TypeView& a, const TypeView& b) {
    return LessDeep(a.nodes, b.nodes, mean_);
  });
  if (best == nullptr) return std::nullopt;
  return Choice{best->type};
}

}  // namespace cellbatch
