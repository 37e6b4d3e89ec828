#include "cells/compile/plan_cell.h"

#include <gtest/gtest.h>

#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_limits.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

using testing::GrusSideBySide;

constexpr int32_t kUnits = 64;

CellPlan Planned(const CellDefinition& cell) {
  const absl::StatusOr<CellSkeleton> skeleton = MakeSkeleton(cell, kCpuLimits);
  EXPECT_TRUE(skeleton.ok()) << skeleton.status();
  return PlanCell(*skeleton);
}

int64_t LeavesOf(const LayoutProblem& problem) {
  auto leaves = static_cast<int64_t>(problem.variables.size());
  for (const OperandBatch& batch : problem.batches) leaves += batch.size();
  return leaves;
}

// Counted, not timed: a leaf is well below a microsecond, so this bounds milliseconds on any machine.
TEST(PlanCellTest, WorkIsBoundedForACellOfTheMostOperators) {
  const CellDefinition cell = GrusSideBySide(kUnits, 25, /*alike=*/false);
  int operators = 0;
  for (const Op& op : cell.ops()) operators += Family(op.kind) == OpFamily::kLeaf ? 0 : 1;
  ASSERT_GT(operators, kMaxOps - 16);
  const CellPlan plan = Planned(cell);
  EXPECT_LE(plan.layout.work, kMaxPlanWork + 2 * LeavesOf(plan.problem));
  EXPECT_GT(plan.layout.work, kMaxPlanWork);  // else this is not the cell that tries it
}

TEST(PlanCellTest, GrusThatAreAlikeHaveTheirPlansProvedHoweverMany) {
  for (const int count : {7, kMaxColumns}) {
    const CellPlan plan = Planned(GrusSideBySide(kUnits, count));
    EXPECT_TRUE(plan.layout.least);
    EXPECT_EQ(plan.layout.packed.size(), static_cast<size_t>(count));  // one matrix of each
    EXPECT_TRUE(plan.layout.copies.empty());
  }
}

TEST(PlanCellTest, NoShippedCellComesNearTheBound) {
  const Sizes sizes = {{"D", 64}, {"H", 64}, {"V", 1000}, {"C", 64}, {"F", 64}, {"B", 64},
                       {"L", 64}, {"M", 64}, {"P", 64},   {"S", 64}, {"BOS", 1}};
  for (const ShippedCell& shipped : ShippedCells()) {
    SCOPED_TRACE(shipped.name);
    const CellPlan plan = Planned(testing::ShippedDefinition(shipped.name, sizes));
    EXPECT_LT(plan.layout.work, kMaxPlanWork / 2);
  }
}

}  // namespace
}  // namespace cellbatch
