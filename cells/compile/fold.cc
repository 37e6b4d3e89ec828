#include "cells/compile/fold.h"

#include <algorithm>
#include <utility>

namespace cellbatch {
namespace {

// Multiply-adds that one node saves.
int64_t Saved(const ProductStep& step) {
  const SegmentPlan& first = step.segments[0];
  const auto groups = std::count_if(first.weights.begin(), first.weights.end(),
                                    [](const auto& w) { return w.has_value(); });
  return int64_t{first.depth} * step.units * groups;
}

}  // namespace

std::vector<Fold> PlanFolds(absl::Span<const CellProgram> programs, int64_t budget_bytes,
                            absl::FunctionRef<int64_t(const ProductStep&)> row_bytes) {
  std::vector<std::pair<double, Fold>> candidates;  // time saved per byte
  for (size_t p = 0; p < programs.size(); ++p) {
    for (size_t s = 0; s < programs[p].steps.size(); ++s) {
      const auto* const step = std::get_if<ProductStep>(&programs[p].steps[s]);
      if (step == nullptr || step->segments.empty()) continue;
      const Place& source = step->segments[0].source;
      if (source.kind != PlaceKind::kTableRow) continue;
      const int64_t rows = programs[p].lookups[static_cast<size_t>(source.index)].rows;
      const int64_t bytes = rows * row_bytes(*step);
      const Fold fold = {static_cast<int>(p), static_cast<int>(s), bytes};
      candidates.emplace_back(static_cast<double>(Saved(*step)) / static_cast<double>(bytes), fold);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Fold> folds;
  for (const auto& [worth, fold] : candidates) {
    if (fold.bytes > budget_bytes) continue;
    budget_bytes -= fold.bytes;
    folds.push_back(fold);
  }
  return folds;
}

}  // namespace cellbatch
