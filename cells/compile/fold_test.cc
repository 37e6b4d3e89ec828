#include "cells/compile/fold.h"

#include <gtest/gtest.h>

#include "cells/compile/lower.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

TEST(FoldTest, OnlyProductsThatStartFromATableAreFolded) {
  const std::vector<CellProgram> programs = {*Lower(testing::LstmCell(3, 5)),
                                             *Lower(testing::TokenLstmCell(100, 3, 5)),
                                             *Lower(testing::EmbeddingCell(100, 3))};
  const std::vector<Fold> folds = PlanFolds(programs, 1 << 30);
  EXPECT_EQ(folds, (std::vector<Fold>{{1, 1, 100 * 64 * 4}}));  // one block of four groups a row
}

TEST(FoldTest, MemoryGoesWhereItSavesMostTimePerByte) {
  // Same row size; the second saves ten times the work, the third has ten times the rows.
  const std::vector<CellProgram> programs = {*Lower(testing::TokenLstmCell(100, 3, 5)),
                                             *Lower(testing::TokenLstmCell(100, 30, 5)),
                                             *Lower(testing::TokenLstmCell(1000, 30, 5))};
  const int64_t small = 100 * 64 * 4;
  EXPECT_EQ(PlanFolds(programs, small), (std::vector<Fold>{{1, 1, small}}));
  EXPECT_EQ(PlanFolds(programs, 2 * small), (std::vector<Fold>{{1, 1, small}, {0, 1, small}}));
  EXPECT_EQ(PlanFolds(programs, 12 * small).size(), 3u);
  EXPECT_TRUE(PlanFolds(programs, small - 1).empty());
}

}  // namespace
}  // namespace cellbatch
