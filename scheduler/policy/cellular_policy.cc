#include "scheduler/policy/cellular_policy.h"

namespace cellbatch {
namespace {

// By criterion; in the order of the algorithm.
constexpr std::string_view kReasons[] = {"full", "idle_type", "any"};

int CriterionOf(const TypeView& view) {
  if (view.ready >= view.max_batch) return 0;
  return view.tasks_in_flight == 0 ? 1 : 2;
}

}  // namespace

absl::Span<const std::string_view> CellularPolicy::reasons() const { return kReasons; }

std::optional<Choice> CellularPolicy::Choose(Frontier frontier) const {
  const TypeView* best = nullptr;
  int best_criterion = 0;
  for (const TypeView& view : frontier) {
    if (view.ready <= 0) continue;
    const int criterion = CriterionOf(view);
    const bool better = best == nullptr || criterion < best_criterion ||
                        (criterion == best_criterion &&
                         (view.priority > best->priority ||
                          (view.priority == best->priority && view.type < best->type)));
    if (!better) continue;
    best = &view;
    best_criterion = criterion;
  }
  if (best == nullptr) return std::nullopt;
  return Choice{best->type, best_criterion};
}

}  // namespace cellbatch
