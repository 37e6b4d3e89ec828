#include "cells/compile/lower.h"

#include "cells/compile/apply_plan.h"
#include "cells/compile/plan_cell.h"
#include "cells/compile/skeleton.h"

namespace cellbatch {

absl::StatusOr<CellProgram> Lower(const CellDefinition& cell, const ProgramLimits& limits) {
  const absl::StatusOr<CellSkeleton> skeleton = MakeSkeleton(cell, limits);
  if (!skeleton.ok()) return skeleton.status();
  return ApplyPlan(*skeleton, PlanCell(*skeleton), limits);
}

}  // namespace cellbatch
