// Cells that are not shipped, as a user would write them: what the compiler makes of a text that nobody wrote it for is
// what the text says, on every instruction set, and a node's bits do not depend on its batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch::conformance {
namespace {

using testing::CellTrial;

struct Text {
  std::string name, text;
};

std::vector<Text> NewCells() {
  std::vector<Text> texts;
  for (const auto& entry : std::filesystem::directory_iterator("tests/bench/cells")) {
    std::ifstream file(entry.path());
    texts.push_back({entry.path().stem(), {std::istreambuf_iterator<char>(file), {}}});
  }
  std::sort(texts.begin(), texts.end(),
            [](const Text& a, const Text& b) { return a.name < b.name; });
  return texts;
}

class NewCellTest : public ::testing::TestWithParam<const kernels::CpuKernels*> {};
INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, NewCellTest,
                         ::testing::ValuesIn(kernels::RunnableKernels(DetectCpuFeatures())),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(NewCellTest, ACellThatNobodyShipsIsWhatItsTextSaysInAnyBatch) {
  const std::vector<Text> cells = NewCells();
  ASSERT_GE(cells.size(), 3u);
  uint64_t seed = 70;
  for (const Text& cell : cells) {
    EXPECT_EQ(testing::ShippedText(cell.name), "") << cell.name << " is shipped";
    for (const int64_t width : {32, 57}) {
      absl::StatusOr<CellDefinition> definition =
          testing::DefinitionOfWidth(cell.text, cell.name, width);
      ASSERT_TRUE(definition.ok()) << definition.status();
      CellTrial trial(*std::move(definition), ++seed, *GetParam());
      constexpr int32_t kMost = 37;
      trial.Run(kMost);
      std::vector<std::vector<std::vector<float>>> left;
      for (int32_t node = 0; node < kMost; ++node) {
        EXPECT_EQ(trial.Disagreement(node), "") << "seed " << seed;
        left.push_back(trial.Left(node));
      }
      for (const int32_t nodes : {1, 5, 16, 17}) {
        trial.Run(nodes);
        for (int32_t node = 0; node < nodes; ++node) {
          EXPECT_EQ(trial.Left(node), left[static_cast<size_t>(node)])
              << cell.name << " in a batch of " << nodes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch::conformance
