// The plan is the only source of where things lie: a compiler that ignored it would make the same program of every plan.
// And it is a source of nothing else: whatever the plan, a cell leaves the same bits. The batched executor runs plans of
// single operators, and copies what they say.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cells/batched/plan_batched.h"
#include "cells/compile/apply_plan.h"
#include "cells/compile/fold.h"
#include "cells/compile/lower.h"
#include "cells/definitions/shipped.h"
#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/reference/interpreter.h"
#include "fmt/format.h"
#include "memplan/validator.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"
#include "tests/testing/shipped_cell.h"

namespace cellbatch::conformance {
namespace {

using testing::CellTrial;
using testing::ShippedDefinition;

// Widths that are whole cache lines, so that neighbours can be one segment, and others that are none.
const Sizes kWhole = {{"D", 32}, {"H", 32}, {"V", 40}, {"C", 16}, {"F", 16}, {"B", 16},
                      {"L", 16}, {"M", 32}, {"P", 16}, {"S", 3},  {"BOS", 1}};
const Sizes kOdd = {{"D", 13}, {"H", 13}, {"V", 33}, {"C", 17}, {"F", 21}, {"B", 34},
                    {"L", 23}, {"M", 37}, {"P", 11}, {"S", 4},  {"BOS", 7}};

// Everything that has a place of its own, last to first.
CellPlan Reversed(const CellSkeleton& skeleton) {
  CellPlan plan = PlanCell(skeleton);
  std::reverse(plan.layout.order.begin(), plan.layout.order.end());
  for (std::vector<int32_t>& operators : plan.layout.operator_order) {
    std::reverse(operators.begin(), operators.end());
  }
  plan.layout = LayOut(plan.problem, plan.layout.order, plan.layout.operator_order, /*pack=*/true);
  return plan;
}

// A program with how its weights are stacked, which Describe leaves out.
std::string InFull(const CellProgram& program) {
  std::string text = Describe(program);
  for (const Step& step : program.steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    if (product == nullptr) continue;
    for (const SegmentPlan& segment : product->segments) {
      for (const std::optional<ParameterView>& w : segment.weights) {
        text += w.has_value() ? fmt::format(" {}+{}", w->parameter.value(), w->offset) : " none";
      }
      text += "\n";
    }
  }
  return text;
}

// Groups of one product, or values in scratch, of which one may be first.
bool HasChoices(const CellSkeleton& skeleton) {
  std::set<int32_t> values;
  bool groups = false;
  for (const Step& step : skeleton.steps) {
    const auto* const product = std::get_if<ProductStep>(&step);
    groups |= product != nullptr && product->groups() > 1;
    ForEachPlace(step, skeleton.lookups, [&](const Place& place) {
      if (place.kind == PlaceKind::kScratch) values.insert(place.index);
    });
  }
  return groups || values.size() > 1;
}

// A cell compiled twice, with its own plan and with the reverse.
struct Twice {
  Twice(const CellDefinition& cell, uint64_t seed, testing::TrialOptions options)
      : planned(cell, seed, kernels::BestKernels(DetectCpuFeatures()), options),
        reversed(cell, seed, kernels::BestKernels(DetectCpuFeatures()),
                 (options.plan = Reversed, options)) {}

  void Run(int32_t nodes) {
    planned.Run(nodes);
    reversed.Run(nodes);
    for (int32_t node = 0; node < nodes; ++node) {
      EXPECT_EQ(planned.Left(node), reversed.Left(node)) << planned.type().name;
    }
  }

  CellTrial planned, reversed;
};

// How far the interpreter's answers move, by column and in the Euclidean norm, when every number that the node reads moves
// by a few roundings: where values of order one cancel each other, that is far more than a rounding of what is left.
std::vector<double> Sensitivity(const CellTrial& trial, int32_t node) {
  const CellType& type = trial.type();
  const RowValues expected = trial.Expected(node);
  std::vector<double> most(expected.size());
  std::mt19937_64 random(20230719);
  for (int round = 0; round < 8; ++round) {
    std::vector<RowValues> inputs = trial.Inputs(node);
    for (RowValues& input : inputs) {
      for (std::vector<double>& column : input) {
        for (double& v : column) v *= random() % 2 == 0 ? 1.0 + 0x1p-20 : 1.0 - 0x1p-20;
      }
    }
    const RowValues moved = InterpretNode(*type.definition, type.weights, inputs);
    for (size_t c = 0; c < moved.size(); ++c) {
      double square = 0;
      for (size_t u = 0; u < moved[c].size(); ++u) {
        square += (moved[c][u] - expected[c][u]) * (moved[c][u] - expected[c][u]);
      }
      most[c] = std::max(most[c], std::sqrt(square));
    }
  }
  return most;
}

// design.md's bound and what the cell makes of a few roundings of its inputs.
bool WithinPropagatedBound(const CellTrial& trial, int32_t node) {
  const RowValues expected = trial.Expected(node), got = trial.LeftValues(node);
  const std::vector<double> propagated = Sensitivity(trial, node);
  for (size_t c = 0; c < expected.size(); ++c) {
    double error = 0, norm = 0;
    for (size_t u = 0; u < expected[c].size(); ++u) {
      error += (got[c][u] - expected[c][u]) * (got[c][u] - expected[c][u]);
      norm += expected[c][u] * expected[c][u];
    }
    if (!(std::sqrt(error) <= 1e-5 * std::sqrt(norm) + propagated[c])) return false;
  }
  return true;
}

TEST(PlannedCellsTest, AReversedPlanIsAnotherProgram) {
  std::set<std::string> described;
  for (const ShippedCell& shipped : ShippedCells()) {
    SCOPED_TRACE(std::string(shipped.name));
    const CellSkeleton skeleton =
        *MakeSkeleton(ShippedDefinition(shipped.name, kWhole), kCpuLimits);
    const CellProgram planned = ApplyPlan(skeleton, PlanCell(skeleton), kCpuLimits);
    const CellProgram reversed = ApplyPlan(skeleton, Reversed(skeleton), kCpuLimits);
    EXPECT_EQ(InFull(planned) == InFull(reversed), !HasChoices(skeleton));
    if (Describe(planned) != Describe(reversed)) described.insert(std::string(shipped.name));
  }
  // Groups that read different inputs, values that are made together, rows that are one only in one order.
  for (const char* name : {"gru", "gru_v1", "mv_internal", "treegru_internal", "treegru_leaf",
                           "treelstm_childsum", "treelstm_internal"}) {
    EXPECT_TRUE(described.contains(name)) << name;
  }
}

TEST(PlannedCellsTest, WhatIsLoweredIsWhatWasPlanned) {
  for (const ShippedCell& shipped : ShippedCells()) {
    const CellDefinition cell = ShippedDefinition(shipped.name, kWhole);
    const CellSkeleton skeleton = *MakeSkeleton(cell, kCpuLimits);
    EXPECT_EQ(InFull(*Lower(cell, kCpuLimits)),
              InFull(ApplyPlan(skeleton, PlanCell(skeleton), kCpuLimits)));
  }
}

TEST(PlannedCellsTest, PlansAreValid) {
  std::vector<CellDefinition> cells;
  for (const ShippedCell& shipped : ShippedCells())
    cells.push_back(ShippedDefinition(shipped.name, kWhole));
  for (uint64_t seed = 1; seed <= 1000; ++seed) cells.push_back(testing::RandomCell(seed));
  for (const CellDefinition& cell : cells) {
    const CellPlan plan = PlanCell(*MakeSkeleton(cell, kCpuLimits));
    EXPECT_EQ(Validate(plan.problem, plan.layout), absl::OkStatus()) << cell.name();
    ASSERT_EQ(plan.variables.size(), plan.problem.variables.size()) << cell.name();
  }
}

TEST(PlannedCellsTest, ShippedCellsAgreeWithTheInterpreterAndLeaveTheSameBitsWhateverThePlan) {
  for (const ShippedCell& shipped : ShippedCells()) {
    for (const Sizes& sizes : {kWhole, kOdd}) {
      Twice cell(ShippedDefinition(shipped.name, sizes), 1,
                 {.rows = 9, .words = 30, .positive = {"before.n"}});
      cell.Run(9);
      for (int32_t node = 0; node < 9; ++node) {
        EXPECT_EQ(cell.planned.Disagreement(node), "");
        EXPECT_EQ(cell.reversed.Disagreement(node), "");
      }
    }
  }
}

void ExpectAgreement(CellDefinition (*random_cell)(uint64_t)) {
  int cancelling = 0;  // what they leave is a small difference of what they compute
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    Twice cell(random_cell(seed), seed, {.rows = 9});
    cell.Run(3);
    for (int32_t node = 0; node < 3; ++node) {
      const std::string disagreement = cell.planned.Disagreement(node);
      if (disagreement.empty()) continue;
      ++cancelling;
      EXPECT_TRUE(WithinPropagatedBound(cell.planned, node)) << disagreement;
    }
  }
  EXPECT_LE(cancelling, 30) << "of 3000 nodes";
}

TEST(PlannedCellsTest, AThousandRandomCellsAgreeWithTheInterpreterAndLeaveTheSameBits) {
  ExpectAgreement(testing::RandomCell);
}

TEST(PlannedCellsTest, AThousandRandomCellsOfParametersAgreeWithTheInterpreterAndLeaveTheSameBits) {
  ExpectAgreement(testing::RandomCellOfParameters);
}

constexpr BatchedLayout kLayouts[] = {BatchedLayout::kNaive, BatchedLayout::kNaivePacked,
                                      BatchedLayout::kPlanned, BatchedLayout::kFull};
constexpr int32_t kPlannedNodes = 8;

// A cell run by its operator batches, planned for a task of kPlannedNodes.
struct BatchedTrial {
  BatchedTrial(const CellDefinition& cell, uint64_t seed, BatchedLayout layout,
               testing::TrialOptions options)
      : trial(cell, seed, kernels::BestKernels(DetectCpuFeatures()),
              (
                  options.batched = [&](const CellDefinition& c) { return Plan(c, layout); },
                  options)) {}

  BatchedProgram Plan(const CellDefinition& cell, BatchedLayout layout) {
    absl::StatusOr<BatchedPlan> plan = PlanBatched(cell, layout, kPlannedNodes);
    EXPECT_TRUE(plan.ok()) << plan.status();
    cost = plan->cost;
    return std::move(plan->program);
  }
  // Of the last run, if it was of as many nodes as the plan is for.
  void ExpectCopiesOfThePlan() const {
    const BatchedCounts& counts = trial.counts();
    EXPECT_EQ(counts.gathers, cost.gathers);
    EXPECT_EQ(counts.scatters, cost.scatters);
    EXPECT_EQ(counts.gather_bytes, cost.gather_bytes);
    EXPECT_EQ(counts.scatter_bytes, cost.scatter_bytes);
    EXPECT_EQ(counts.input_gathers, cost.input_gathers);
    EXPECT_EQ(counts.input_bytes, cost.input_bytes);
    EXPECT_GE(counts.launches, cost.launches);  // the plan's may take two strides, as in (x x h h)
  }

  CostReport cost;
  CellTrial trial;
};

TEST(PlannedCellsTest, ShippedCellsInBatchesAgreeWithTheInterpreterAndCopyWhatTheirLayoutSays) {
  for (const ShippedCell& shipped : ShippedCells()) {
    for (const Sizes& sizes : {kWhole, kOdd}) {
      for (const BatchedLayout layout : kLayouts) {
        SCOPED_TRACE(fmt::format("layout {}", static_cast<int>(layout)));
        BatchedTrial cell(ShippedDefinition(shipped.name, sizes), 1, layout,
                          {.rows = 9, .words = 30, .positive = {"before.n"}});
        for (const int32_t nodes : {kPlannedNodes, 1, 9}) {
          cell.trial.Run(nodes);
          if (nodes == kPlannedNodes) cell.ExpectCopiesOfThePlan();
          for (int32_t node = 0; node < nodes; ++node) {
            EXPECT_EQ(cell.trial.Disagreement(node), "");
          }
        }
      }
    }
  }
}

// The most of 8000 nodes that may leave a small difference of large numbers, the fewest cells that have something to copy.
void ExpectAgreementInBatches(CellDefinition (*random_cell)(uint64_t), int most_cancelling,
                              int least_copying) {
  int cancelling = 0, copying = 0;
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    const BatchedLayout layout = kLayouts[seed % std::size(kLayouts)];
    BatchedTrial cell(random_cell(seed), seed, layout,
                      {.rows = 9, .vendor_products = seed % 3 != 0});
    cell.trial.Run(kPlannedNodes);
    cell.ExpectCopiesOfThePlan();
    copying += cell.cost.kernels() > 0;
    for (int32_t node = 0; node < kPlannedNodes; ++node) {
      const std::string disagreement = cell.trial.Disagreement(node);
      if (disagreement.empty()) continue;
      ++cancelling;
      EXPECT_TRUE(WithinPropagatedBound(cell.trial, node)) << disagreement;
    }
  }
  EXPECT_LE(cancelling, most_cancelling) << "of 8000 nodes";
  EXPECT_GE(copying, least_copying) << "cells with something to copy";
}

TEST(PlannedCellsTest, AThousandRandomCellsInBatchesAgreeWithTheInterpreterAndCopyWhatIsSaid) {
  ExpectAgreementInBatches(testing::RandomCell, 80, 100);
}

TEST(PlannedCellsTest, AThousandRandomCellsOfParametersInBatchesAgreeAndCopyWhatIsSaid) {
  ExpectAgreementInBatches(testing::RandomCellOfParameters, 80, 100);
}

// Alone among the floats of its table, h lies row behind row where it is left; but a product reads it with u behind it.
TEST(PlannedCellsTest, InBatchesAnOutputThatIsReadBesideAnotherValueLiesThere) {
  testing::CellBuilder b("beside");
  const ValueId x = b.Read("x", "x", 16), both = b.Matrix("A", 16, 16);
  const ValueId u = b.Sigmoid(b.MatMul(x, b.Matrix("W", 16, 16)));
  const ValueId h = b.Tanh(b.MatMul(x, b.Matrix("V", 16, 16)));
  b.Leave("h", h);
  b.Leave("word", b.Op1(OpKind::kArgMax, b.Sub(b.MatMul(h, both), b.MatMul(u, both))));
  BatchedTrial cell(b.Build(), 1, BatchedLayout::kPlanned, {.rows = 9});
  cell.trial.Run(kPlannedNodes);
  cell.ExpectCopiesOfThePlan();
  for (int32_t node = 0; node < kPlannedNodes; ++node) {
    EXPECT_EQ(cell.trial.Disagreement(node), "");
  }
}

// Each column is an array of its own here. In full, the plan has a place for what is brought.
TEST(PlannedCellsTest, InBatchesRowsThatLieSideBySideAreReadAndLeftWhereTheyLie) {
  constexpr int64_t kX = 16, kH = 32;  // whole cache lines: rows of one column have nothing between
  constexpr int64_t kOfX = kX * sizeof(float) * kPlannedNodes, kOfH = kOfX / kX * kH;
  struct Case {
    CellDefinition cell;
    BatchedLayout layout;
    int64_t input_gathers, row_copies, row_bytes;
    int64_t scattered_copies, scattered_bytes;  // where each node reads a row from somewhere else
  };
  const CellDefinition elman = testing::ElmanCell(kX, kH), lstm = testing::LstmCell(kX, kH);
  const Case cases[] = {{elman, BatchedLayout::kPlanned, 0, 0, 0, 2, kOfX + kOfH},
                        {lstm, BatchedLayout::kPlanned, 0, 0, 0, 3, kOfX + 2 * kOfH},
                        {lstm, BatchedLayout::kFull, 3, 0, 0, 0, 0}};
  std::vector<Row> rows(kPlannedNodes);
  std::iota(rows.begin(), rows.end(), 0);
  CoreTeam team(1, {}, {});
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} layout {}", c.cell.name(), static_cast<int>(c.layout)));
    BatchedTrial cell(c.cell, 1, c.layout, {.rows = 9});
    for (const bool scattered : {false, true}) {
      scattered ? cell.trial.Run(kPlannedNodes) : cell.trial.Run(rows, team);
      cell.ExpectCopiesOfThePlan();
      const BatchedCounts& counts = cell.trial.counts();
      EXPECT_EQ(counts.input_gathers, c.input_gathers);
      EXPECT_EQ(counts.row_copies, scattered ? c.scattered_copies : c.row_copies);
      EXPECT_EQ(counts.row_bytes, scattered ? c.scattered_bytes : c.row_bytes);
      for (int32_t node = 0; node < kPlannedNodes; ++node) {
        EXPECT_EQ(cell.trial.Disagreement(node), "");
      }
    }
  }
}

// Columns 1 to 5 of a table of 8 rows, and numbers up to 30.
TEST(PlannedCellsTest, InBatchesAPartOfATableIsReadAndNumbersBeyondItAreItsLastRow) {
  testing::CellBuilder b("table");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId table = b.Slice(b.Matrix("E", 8, 6), 1, 5);
  b.Leave("x", b.Tanh(b.Lookup(table, token)));
  b.Leave("p", b.Vector("p", 5));
  BatchedTrial cell(b.Build(), 1, BatchedLayout::kPlanned, {.rows = 9, .words = 30});
  cell.trial.Run(kPlannedNodes);
  for (int32_t node = 0; node < kPlannedNodes; ++node) {
    EXPECT_EQ(cell.trial.Disagreement(node), "");
  }
}

// Others become cells of one token as a model puts an embedding in front of them.
TEST(FoldedCellsTest, AShippedCellOfOneTokenLeavesTheBitsOfItsTable) {
  std::set<std::string_view> folded_cells;
  for (const ShippedCell& shipped : ShippedCells()) {
    for (const Sizes* const sizes : {&kWhole, &kOdd}) {
      const CellDefinition cell = ShippedDefinition(shipped.name, *sizes);
      const absl::StatusOr<CellProgram> program = Lower(cell, kCpuLimits);
      ASSERT_TRUE(program.ok()) << program.status();
      if (!LookupOfWhole(*program).has_value()) continue;
      folded_cells.insert(shipped.name);
      const kernels::CpuKernels& kernels = kernels::BestKernels(DetectCpuFeatures());
      CellTrial plain(cell, 5, kernels), folded(cell, 5, kernels, {.fold_whole = true});
      for (CellTrial* const trial : {&plain, &folded}) trial->Run(33);
      for (int32_t node = 0; node < 33; ++node) {
        EXPECT_EQ(plain.Left(node), folded.Left(node)) << shipped.name;
      }
    }
  }
  EXPECT_EQ(folded_cells, (std::set<std::string_view>{"embed", "mv_leaf"}));
}

}  // namespace
}  // namespace cellbatch::conformance
