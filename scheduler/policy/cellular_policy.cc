#include "scheduler/policy/cellular_policy.h"

namespace cellbatch {
namespace {

int CriterionOf(const TypeView& view) {
  if (view.ready >= view.max_batch) return 0;
  return view.tasks_in_flight == 0 ? 1 : 2;
}

}  // namespace

std::optional<CellTypeId> CellularPolicy::Choose(absl::Span<const TypeView> frontier) const {
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
  return best->type;
}

}  // namespace cellbatch
