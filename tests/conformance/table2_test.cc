// The paper's Table 2, as claims about problems derived from definitions: of three shipped cells, and of the four that the
// paper computes with other operators than we do.
#include "tests/testing/table2.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "cells/batched/plan_batched.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/reference/interpreter.h"
#include "memplan/cost_report.h"
#include "memplan/naive_layout.h"
#include "memplan/operator_batcher.h"
#include "memplan/validator.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch {
namespace {

struct Expected {
  int kernels;  // after planning, as the paper has it
  int64_t kilobytes;
  std::vector<int>
      sizes;  // of the batches in the order they run, as an exhaustive search found them, lookups left out
};

const std::map<std::string_view, Expected> kTable2 = {
    {"gru_v1", {2, 14, {5, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1}}},
    {"lstm", {1, 16, {8, 4, 4, 3, 1, 2, 1, 1, 1}}},
    // The paper counts a product and its bias as one operator, and so two batches less.
    {"mv", {2, 260, {2, 1, 1, 1, 1, 1, 1, 1}}},
    {"treegru_internal", {2, 16, {4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 1, 1}}},
    {"treegru_leaf", {2, 8, {2, 2, 2, 2, 1, 1, 1, 1, 1, 1}}},
    {"treelstm_internal", {3, 22, {1, 3, 2, 5, 4, 1, 3, 1, 1, 1, 1}}},
    {"treelstm_leaf", {1, 6, {3, 3, 2, 1, 1, 1, 1}}},
};

TEST(Table2Test, CellsAreTheSevenOfThePaper) {
  std::vector<std::string> names;
  for (const testing::Table2Cell& cell : testing::Table2()) names.push_back(cell.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"gru_v1", "lstm", "mv", "treegru_internal", "treegru_leaf",
                                      "treelstm_internal", "treelstm_leaf"}));
}

TEST(Table2Test, InThePapersSettingCopyWhatThePaperCopies) {
  for (const testing::Table2Cell& cell : testing::Table2()) {
    SCOPED_TRACE(cell.name);
    const auto batched = BatchOperators(cell.graph);
    ASSERT_TRUE(batched.ok()) << batched.status();
    ASSERT_EQ(Validate(batched->problem, batched->layout), absl::OkStatus());
    const CostReport cost = Cost(batched->problem, batched->layout);
    const Expected& expected = kTable2.at(cell.name);
    EXPECT_EQ(cost.kernels(), expected.kernels) << Describe(batched->problem, batched->layout);
    EXPECT_EQ(cost.bytes() / 1024, expected.kilobytes);
    EXPECT_TRUE(batched->layout.least);
    EXPECT_TRUE(batched->fewest);
    std::vector<int> sizes;
    for (const OperandBatch& batch : batched->problem.batches) sizes.push_back(batch.size());
    EXPECT_EQ(sizes, expected.sizes);
    const auto naive = NaiveLayout(batched->problem);
    EXPECT_GE(Cost(batched->problem, *naive).bytes(), cost.bytes());
  }
}

TEST(Table2Test, WithInputsInThePlanAndBroadcastsByStrideNothingIsCopiedInside) {
  for (const testing::Table2Cell& cell : testing::Table2()) {
    SCOPED_TRACE(cell.name);
    const auto batched = BatchOperators(InFull(cell.graph));
    ASSERT_TRUE(batched.ok());
    ASSERT_EQ(Validate(batched->problem, batched->layout), absl::OkStatus());
    const CostReport cost = Cost(batched->problem, batched->layout);
    EXPECT_EQ(cost.kernels(), 0) << Describe(batched->problem, batched->layout);
    int inputs = 0;
    for (const Variable& v : cell.graph.variables) inputs += v.kind == VariableKind::kInput;
    EXPECT_EQ(cost.input_gathers, inputs) << "staging is counted";
    // Only the GRU's five products, three of x and two of h, take two launches as stacked weights.
    EXPECT_EQ(cost.launches, cost.num_batches + (cell.name == "gru_v1" ? 1 : 0));
  }
}

TEST(Table2Test, TheBatchedExecutorComputesTheCellsAndCopiesWhatTheTableSays) {
  for (const testing::Table2Cell& cell : testing::Table2()) {
    SCOPED_TRACE(cell.name);
    testing::TrialOptions options = {.rows = 8};
    options.batched = [&](const CellDefinition& definition) {
      return PlanBatched(definition, BatchedLayout::kPlanned, 8, cell.placed)->program;
    };
    testing::CellTrial trial(cell.definition, 5, kernels::BestKernels(DetectCpuFeatures()),
                             options);
    trial.Run(8);
    const BatchedCounts& counts = trial.counts();
    const Expected& expected = kTable2.at(cell.name);
    EXPECT_EQ(counts.gathers + counts.scatters, expected.kernels);
    EXPECT_EQ((counts.gather_bytes + counts.scatter_bytes) / 1024, expected.kilobytes);
    for (int32_t node = 0; node < 8; ++node) EXPECT_EQ(trial.Disagreement(node), "");
  }
}

// Joined matrices times W_m are what the halves of W_m leave of each matrix.
TEST(Table2Test, ThePapersMvCellIsTheShippedOne) {
  const int32_t n = 5;
  const CellDefinition shipped = testing::ShippedDefinition("mv_internal", {{"H", n}});
  const Weights weights = testing::RandomWeights(shipped, 3);
  std::vector<RowValues> inputs;
  for (uint64_t child = 0; child < 2; ++child) {
    const std::vector<float> v = testing::RandomFloats(n, 40 + child),
                             m = testing::RandomFloats(n * n, 50 + child);
    inputs.push_back({{v.begin(), v.end()}, {m.begin(), m.end()}});
  }
  for (const testing::Table2Cell& cell : testing::Table2(n)) {
    if (cell.name != "mv") continue;
    const RowValues papers = InterpretNode(cell.definition, weights, inputs);
    const RowValues ours = InterpretNode(shipped, weights, inputs);
    ASSERT_EQ(papers.size(), 2u);
    for (size_t c = 0; c < 2; ++c) {
      ASSERT_EQ(papers[c].size(), ours[c].size());
      for (size_t i = 0; i < ours[c].size(); ++i) EXPECT_NEAR(papers[c][i], ours[c][i], 1e-12);
    }
    return;
  }
  FAIL() << "no cell mv";
}

}  // namespace
}  // namespace cellbatch
