// Kernels for GPUs whose blocks have more or less shared memory: each step has some, none asks for more than there is, and the
// largest launches have the largest blocks that fit.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "tests/testing/builders.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

// Of an RTX or L4, an A100 and an H200, and the last by Hopper's instructions.
constexpr CudaTarget kTargets[] = {{.most_shared = 99 << 10},
                                   {.most_shared = 163 << 10},
                                   {.most_shared = 227 << 10},
                                   {.wgmma = true, .most_shared = 227 << 10}};

CudaCell Written(const CellDefinition& cell, Precision precision, const CudaTarget& target) {
  const Weights weights = testing::RandomWeights(cell, 1);
  CellProgram program = *Lower(cell, kCudaLimits);
  program.precision = precision;
  std::vector<std::vector<float>> prepared;
  for (const PreparedParameter& p : program.prepared) {
    prepared.emplace_back(static_cast<size_t>(p.width));
  }
  const auto data = [&](ParameterId p) {
    const auto number = static_cast<size_t>(p.value());
    return number < weights.size() ? weights[number].data.get()
                                   : prepared[number - weights.size()].data();
  };
  std::string text;
  return AddCellSource(
      "t0", program, data, [](const Place&) { return true; }, target, text);
}

void ExpectItFits(const CellDefinition& cell) {
  SCOPED_TRACE(cell.name());
  for (const Precision precision : {Precision::kFp32, Precision::kTf32, Precision::kBf16}) {
    for (const CudaTarget& target : kTargets) {
      SCOPED_TRACE(std::string(Name(precision)) + ", " + std::to_string(target.most_shared));
      for (const CudaStep& step : Written(cell, precision, target).steps) {
        EXPECT_FALSE(step.shapes.empty());
        for (const CudaShape& shape : step.shapes) {
          EXPECT_LE(shape.shared_bytes, target.most_shared) << shape.name;
        }
      }
    }
  }
}

TEST(BlockSizesTest, EveryStepOfEveryShippedCellFitsAndSoDoCellsAtRandom) {
  for (const ShippedCell& shipped : ShippedCells()) {
    const auto cell =
        testing::DefinitionOfWidth(shipped.text, std::string(shipped.name), /*units=*/64);
    ASSERT_TRUE(cell.ok()) << cell.status();
    ExpectItFits(*cell);
  }
  for (uint64_t seed = 1; seed <= 20; ++seed) ExpectItFits(testing::RandomCell(seed));
}

// In bf16 blocks of 128 nodes want three pieces of 32 KiB, and what the tail reads beside them.
TEST(BlockSizesTest, AnLstmsLargeLaunchesHaveLargeBlocksWhereverThreePiecesOfThemFit) {
  const CellDefinition lstm = testing::LstmCell(64, 64);
  const auto largest = [&](Precision precision, const CudaTarget& target) {
    return Written(lstm, precision, target).steps[0].shapes.back().nodes_a_block;
  };
  for (const CudaTarget& target : {kTargets[0], kTargets[1], kTargets[2]}) {
    SCOPED_TRACE(target.most_shared);
    EXPECT_EQ(largest(Precision::kFp32, target), 64);
    EXPECT_EQ(largest(Precision::kBf16, target), target.most_shared > 99 << 10 ? 128 : 64);
  }
}

}  // namespace
}  // namespace cellbatch
