#include "cells/compile/fold.h"

#include <gtest/gtest.h>

#include "cells/compile/lower.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr ProgramLimits kLimits = {
    .groups = 5, .segments = 8, .tail_ops = 64, .tail_columns = 16, .scratch_alignment = 16};

// A device that stores a row of 5 units and 4 groups in 64 floats, any other in more.
int64_t RowBytes(const ProductStep& step) { return int64_t{step.groups()} * (step.units + 11) * 4; }

TEST(FoldTest, OnlyProductsThatStartFromATableAreFolded) {
  const std::vector<CellProgram> programs = {*Lower(testing::LstmCell(3, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(100, 3, 5), kLimits),
                                             *Lower(testing::EmbeddingCell(100, 3), kLimits)};
  const std::vector<Fold> folds = PlanFolds(programs, 1 << 30, RowBytes);
  EXPECT_EQ(folds, (std::vector<Fold>{{1, 1, 100 * 64 * 4}}));
}

TEST(FoldTest, MemoryGoesWhereItSavesMostTimePerByte) {
  // Same row size; the second saves ten times the work, the third has ten times the rows.
  const std::vector<CellProgram> programs = {*Lower(testing::TokenLstmCell(100, 3, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(100, 30, 5), kLimits),
                                             *Lower(testing::TokenLstmCell(1000, 30, 5), kLimits)};
  const int64_t small = 100 * 64 * 4;
  EXPECT_EQ(PlanFolds(programs, small, RowBytes), (std::vector<Fold>{{1, 1, small}}));
  EXPECT_EQ(PlanFolds(programs, 2 * small, RowBytes),
            (std::vector<Fold>{{1, 1, small}, {0, 1, small}}));
  EXPECT_EQ(PlanFolds(programs, 12 * small, RowBytes).size(), 3u);
  EXPECT_TRUE(PlanFolds(programs, small - 1, RowBytes).empty());
}

}  // namespace
}  // namespace cellbatch
