// Products in less than fp32, cell by cell, on every instruction set of this machine and by tile registers as they are emulated: what W8 says is what the interpreter
// says in double of the weights as they were rounded, within the bound that fp32 has; BF16, whose inputs are rounded at
// each product, is near the interpreter on the weights as they are. And bits depend on nothing more than in fp32: folded,
// in any company, on one core or two.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_memory.h"
#include "cells/kernels/cpu/emulated_tiles.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

using testing::CellTrial;
using testing::TrialOptions;

constexpr int32_t kNodes = 33;

std::vector<CellDefinition> ZooCells() {
  const Sizes sizes = {{"D", 45}, {"H", 77}, {"C", 19}};
  std::vector<CellDefinition> cells;
  for (const char* name : {"lstm", "gru", "gru_v1", "treelstm_internal", "treelstm_childsum",
                           "linear_softmax", "elman_relu"}) {
    cells.push_back(testing::ShippedDefinition(name, sizes));
  }
  return cells;
}

class PrecisionTest : public ::testing::TestWithParam<const kernels::CpuKernels*> {};

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, PrecisionTest,
                         ::testing::ValuesIn(kernels::RunnableAndEmulated()),
                         [](const auto& info) { return std::string(info.param->name); });

// Of a column of a node: how far it is from `expected`, as a share of its norm.
double RelativeError(const std::vector<double>& got, const std::vector<double>& expected) {
  double error = 0.0, norm = 0.0;
  for (size_t u = 0; u < got.size(); ++u) {
    error += (got[u] - expected[u]) * (got[u] - expected[u]);
    norm += expected[u] * expected[u];
  }
  return std::sqrt(error / norm);
}

TEST_P(PrecisionTest, W8IsWhatTheInterpreterSaysOfTheRoundedWeights) {
  for (const CellDefinition& cell : ZooCells()) {
    CellTrial trial(cell, 5, *GetParam(), {.precision = Precision::kW8});
    trial.Run(kNodes);
    for (int32_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(trial.Disagreement(node), "") << cell.name() << ", node " << node;
    }
    EXPECT_EQ(trial.counted_bytes(), trial.packed().bytes()) << cell.name();
  }
}

// Where there are no tile registers, it is fp32.
TEST_P(PrecisionTest, SplitFp32IsWithinTheBoundOfFp32) {
  for (const CellDefinition& cell : ZooCells()) {
    CellTrial trial(cell, 5, *GetParam(), {.precision = Precision::kFp32Split});
    CellTrial floats(cell, 5, *GetParam());
    trial.Run(kNodes);
    floats.Run(kNodes);
    for (int32_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(trial.Disagreement(node), "") << cell.name() << ", node " << node;
      const bool same = trial.Left(node) == floats.Left(node);
      EXPECT_EQ(same, GetParam()->split_to_bf16 == nullptr) << cell.name() << ", node " << node;
    }
    EXPECT_EQ(trial.counted_bytes(), trial.packed().bytes()) << cell.name();
  }
}

TEST_P(PrecisionTest, Tf32IsFp32OnCpus) {
  for (const CellDefinition& cell : ZooCells()) {
    CellTrial trial(cell, 5, *GetParam(), {.precision = Precision::kTf32});
    CellTrial floats(cell, 5, *GetParam());
    EXPECT_EQ(trial.packed().program().precision, Precision::kFp32);
    trial.Run(kNodes);
    floats.Run(kNodes);
    for (int32_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(trial.Left(node), floats.Left(node)) << cell.name() << ", node " << node;
    }
  }
}

// Two roundings of relative 2^-9 for each product, of random signs, through gates whose slope is at most 1: below 1 %.
TEST_P(PrecisionTest, Bf16IsNearTheInterpreterAndIsNotFp32) {
  for (const CellDefinition& cell : ZooCells()) {
    CellTrial trial(cell, 5, *GetParam(), {.precision = Precision::kBf16});
    CellTrial floats(cell, 5, *GetParam());
    trial.Run(kNodes);
    floats.Run(kNodes);
    for (int32_t node = 0; node < kNodes; ++node) {
      const RowValues expected = trial.Expected(node), got = trial.LeftValues(node);
      for (size_t c = 0; c < got.size(); ++c) {
        EXPECT_LT(RelativeError(got[c], expected[c]), 0.01) << cell.name() << ", node " << node;
      }
      EXPECT_NE(trial.Left(node), floats.Left(node)) << cell.name() << ", node " << node;
    }
    EXPECT_EQ(trial.counted_bytes(), trial.packed().bytes()) << cell.name();
  }
}

TEST_P(PrecisionTest, BitsDependNeitherOnCompanyNorOnCoresNorOnWhatIsKnownToBeZero) {
  CoreTeam one(1, {}, {}), two(2, {}, {});
  for (const Precision precision : {Precision::kW8, Precision::kBf16, Precision::kFp32Split}) {
    for (const CellDefinition& cell : ZooCells()) {
      TrialOptions options = {.precision = precision, .zero_row = true};
      CellTrial alone(cell, 5, *GetParam(), options), together(cell, 5, *GetParam(), options);
      std::vector<Row> rows;
      for (Row r = 0; r < kNodes; ++r) rows.push_back(r);
      together.Run(rows, two);
      for (const Row r : rows) {
        alone.Run({r}, one);  // row 0: zeros, alone known to be
        EXPECT_EQ(alone.Left(0), together.Left(r))
            << cell.name() << " in " << Name(precision) << ", row " << r;
      }
    }
  }
}

TEST_P(PrecisionTest, AFoldedTableHasTheBitsOfThePlainPath) {
  for (const Precision precision : {Precision::kW8, Precision::kBf16, Precision::kFp32Split}) {
    const CellDefinition lstm = testing::TokenLstmCell(200, 31, 37);
    CellTrial plain(lstm, 5, *GetParam(), {.words = 200, .precision = precision});
    CellTrial folded(lstm, 5, *GetParam(), {.words = 200, .fold = true, .precision = precision});
    plain.Run(kNodes);
    folded.Run(kNodes);
    for (int32_t node = 0; node < kNodes; ++node) {
      EXPECT_EQ(plain.Left(node), folded.Left(node)) << Name(precision);
    }
    EXPECT_EQ(folded.counted_bytes(), folded.packed().bytes());
  }
}

// Models as they are loaded: what they take, and weights for which a precision has no number.
class LoadedPrecisionTest : public ::testing::Test {
 protected:
  static Model ModelOf(Precision precision, float weight) {
    const CellDefinition cell = testing::LinearCell(8, 32);
    Model model;
    model.name = "m";
    model.precision = precision;
    model.tables = {{"x", {cell.inputs()[0].reads.begin(), cell.inputs()[0].reads.end()}},
                    {"y", {cell.columns().begin(), cell.columns().end()}}};
    CellType type;
    type.id = CellTypeId(0);
    type.name = "linear";
    type.precision = precision;
    type.weights = testing::RandomWeights(cell, 3);
    const_cast<float*>(type.weights[Matrix(cell)].data.get())[5] = weight;
    type.definition = std::make_shared<const CellDefinition>(cell);
    type.in = {TableId(0)};
    type.out = TableId(1);
    model.types.push_back(std::move(type));
    return model;
  }
  // Its only one.
  static size_t Matrix(const CellDefinition& cell) {
    size_t p = 0;
    while (cell.parameters()[p].shape.rows == 1) ++p;
    return p;
  }
  CpuMemory memory_{kernels::BestKernels(DetectCpuFeatures()), 1, 0};
};

TEST_F(LoadedPrecisionTest, WeightsTakeFourBytesOrTwoOrOne) {
  for (const auto& [precision, bytes] :
       {std::pair(Precision::kFp32, 4), {Precision::kBf16, 2}, {Precision::kW8, 1}}) {
    const Model model = ModelOf(precision, 1.0f);
    const auto loaded = memory_.Load(model, {{4, 4}});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->weight_bytes(), 8 * 32 * bytes);
    const auto account = memory_.Account(model);
    ASSERT_TRUE(account.ok());
    EXPECT_EQ(account->types[0].weight_bytes, 8 * 32 * bytes);
    const bool says = account->types[0].steps[0].starts_with(std::string("in ") + Name(precision));
    EXPECT_EQ(says, precision != Precision::kFp32) << account->types[0].steps[0];
  }
}

TEST_F(LoadedPrecisionTest, AWeightForWhichThereIsNoNumberIsNamed) {
  EXPECT_TRUE(memory_.Load(ModelOf(Precision::kFp32, 3.4e38f), {{4, 4}}).ok());
  EXPECT_TRUE(memory_.Load(ModelOf(Precision::kW8, 3.4e38f), {{4, 4}}).ok());
  const Model beyond = ModelOf(Precision::kBf16, 3.4e38f);
  const CellDefinition& cell = *beyond.types[0].definition;
  const std::string name = cell.parameters()[Matrix(cell)].name;
  EXPECT_EQ(memory_.Load(beyond, {{4, 4}}).status().message(),
            "model \"m\": cell type \"linear\": parameter \"" + name +
                "\": element 5 is 3.4e+38, for which BF16 has no number");
  for (const Precision precision : {Precision::kFp32, Precision::kW8, Precision::kBf16}) {
    EXPECT_EQ(memory_.Load(ModelOf(precision, NAN), {{4, 4}}).status().message(),
              "model \"m\": cell type \"linear\": parameter \"" + name + "\": element 5 is nan");
  }
}

TEST_F(LoadedPrecisionTest, AModelIsInOnePrecision) {
  Model model = ModelOf(Precision::kW8, 1.0f);
  model.precision = Precision::kFp32;
  EXPECT_EQ(model.Validate().message(),
            "model \"m\": cell type \"linear\" is in W8, the model in FP32");
}

}  // namespace
}  // namespace cellbatch
