#include "cells/batched/batched_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cells/batched/plan_batched.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

int Count(const BatchedProgram& program, OperandPlace place) {
  int count = 0;
  for (const OperatorBatch& batch : program.batches) {
    for (const PlacedOperand& operand : batch.operands) count += operand.place == place;
  }
  return count;
}

BatchedPlan PlanOf(const CellDefinition& cell, BatchedLayout layout) {
  absl::StatusOr<BatchedPlan> plan = PlanBatched(cell, layout, 8);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

TEST(BatchedProgramTest, WhatThePlanDoesNotLayInPlaceIsStagedOrPacked) {
  const CellDefinition lstm = testing::LstmCell(16, 16);
  for (const BatchedLayout layout : {BatchedLayout::kNaive, BatchedLayout::kNaivePacked,
                                     BatchedLayout::kPlanned, BatchedLayout::kFull}) {
    const BatchedPlan plan = PlanOf(lstm, layout);
    EXPECT_EQ(Count(plan.program, OperandPlace::kStaged), plan.cost.kernels());
    EXPECT_EQ(static_cast<int>(plan.program.batches.size()), plan.cost.num_batches);
  }
  EXPECT_GT(Count(PlanOf(lstm, BatchedLayout::kNaive).program, OperandPlace::kStaged),
            Count(PlanOf(lstm, BatchedLayout::kPlanned).program, OperandPlace::kStaged));
  EXPECT_EQ(Count(PlanOf(lstm, BatchedLayout::kNaive).program, OperandPlace::kPacked), 0);
  EXPECT_GT(Count(PlanOf(lstm, BatchedLayout::kNaivePacked).program, OperandPlace::kPacked), 0);
}

// One kernel a batch: in memory as it was planned, every operand is an address, a count and a stride.
TEST(BatchedProgramTest, WithBroadcastsWrittenOutABatchIsOneLaunch) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    for (const BatchedLayout layout :
         {BatchedLayout::kNaive, BatchedLayout::kNaivePacked, BatchedLayout::kPlanned}) {
      const BatchedPlan plan = PlanOf(testing::RandomCell(seed), layout);
      for (const OperatorBatch& batch : plan.program.batches) {
        ASSERT_EQ(batch.launches.size(), 1u) << seed;
        EXPECT_EQ(batch.launches[0].begin, 0);
        EXPECT_EQ(batch.launches[0].end, static_cast<int32_t>(batch.operands[0].variables.size()));
      }
    }
  }
}

TEST(BatchedProgramTest, AProductWithTheSameWeightsIsReadWithStrideZero) {
  testing::CellBuilder b("shared");
  const ValueId w = b.Matrix("W", 16, 16);
  const ValueId x = b.Sigmoid(b.Read("x", "x", 16)), y = b.Sigmoid(b.Read("y", "y", 16));
  b.Leave("z", b.Add(b.MatMul(x, w), b.MatMul(y, w)));
  const BatchedPlan plan = PlanOf(b.Build(), BatchedLayout::kPlanned);
  int found = 0;
  for (const OperatorBatch& batch : plan.program.batches) {
    if (batch.operands.size() < 2 || !batch.operands[1].is_weights) continue;
    ++found;
    EXPECT_EQ(batch.launches[0].steps, (std::vector<uint8_t>{1, 0, 1}));
  }
  EXPECT_EQ(found, 1);
}

// Nothing that a task writes lies over anything else, whatever the number of nodes.
TEST(BatchedProgramTest, VariablesDoNotOverlap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const BatchedProgram program =
        PlanOf(testing::RandomCell(seed), BatchedLayout::kPlanned).program;
    for (const int64_t nodes : {1, 5}) {
      std::vector<std::pair<int64_t, int64_t>> spans, weights;
      for (size_t v = 0; v < program.start.size(); ++v) {
        const bool constant = program.cell.problem.variables[v].kind == VariableKind::kConstant;
        const int64_t size = program.cell.variables[v].width * (constant ? 1 : nodes);
        const int64_t start = program.start[v].At(nodes);
        (constant ? weights : spans).push_back({start, start + size});
      }
      for (auto* const of : {&spans, &weights}) {
        std::sort(of->begin(), of->end());
        for (size_t i = 1; i < of->size(); ++i) EXPECT_LE((*of)[i - 1].second, (*of)[i].first);
      }
      EXPECT_LE(spans.back().second, program.memory.At(nodes));
    }
  }
}

// What is copied in a task or at load has room, whichever batch copies most.
TEST(BatchedProgramTest, StagedAndPackedOperandsLieBesideEachOtherAndWithinTheirMemory) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    for (const BatchedLayout layout : {BatchedLayout::kNaive, BatchedLayout::kNaivePacked}) {
      const BatchedProgram program = PlanOf(testing::RandomCell(seed), layout).program;
      for (const OperatorBatch& batch : program.batches) {
        int64_t staged = 0;
        for (const PlacedOperand& operand : batch.operands) {
          const auto count = static_cast<int64_t>(operand.variables.size());
          if (operand.place == OperandPlace::kPacked) {
            EXPECT_LE(operand.start.shared + count * operand.size.shared, program.weight_floats);
          }
          if (operand.place != OperandPlace::kStaged) continue;
          EXPECT_EQ(operand.start.At(3), staged) << seed;
          staged += count * operand.size.At(3);
        }
        EXPECT_LE(staged, program.stage.At(3)) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch
