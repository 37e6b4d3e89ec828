#include "cells/batched/plan_batched.h"

#include <utility>

#include "cells/check.h"
#include "cells/compile/operator_problem.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"

namespace cellbatch {
namespace {

MemoryLayout LayoutOf(const Batched& batched, BatchedLayout layout) {
  switch (layout) {
    case BatchedLayout::kNaive:
      return *NaiveLayout(batched.problem);
    case BatchedLayout::kNaivePacked:
      return NaivePackedLayout(batched.problem);
    case BatchedLayout::kPlanned:
    case BatchedLayout::kFull:
      return batched.layout;
  }
  NoSuchEnumerator();
}

}  // namespace

absl::StatusOr<BatchedPlan> PlanBatched(const CellDefinition& cell, BatchedLayout layout,
                                        int32_t nodes, const std::vector<std::string>& placed) {
  absl::StatusOr<CellOperators> operators = OperatorsOfCell(cell, nodes, placed);
  if (!operators.ok()) return operators.status();
  if (layout == BatchedLayout::kFull) operators->problem = InFull(std::move(operators->problem));
  const absl::StatusOr<Batched> batched = BatchOperators(operators->problem);
  if (!batched.ok()) return batched.status();
  const MemoryLayout chosen = LayoutOf(*batched, layout);
  const CostReport cost = Cost(batched->problem, chosen);
  return BatchedPlan{MakeBatchedProgram(*std::move(operators), batched->problem, chosen), cost};
}

}  // namespace cellbatch
