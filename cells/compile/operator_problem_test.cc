#include "cells/compile/operator_problem.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <variant>
#include <vector>

#include "memplan/problem_text.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;

TEST(OperatorProblemTest, EachGateOfAStackedProductIsAnOperatorOfItsOwn) {
  CellBuilder b("gates");
  const ValueId gates = b.MatMul(b.Read("x", "x", 3), b.Matrix("W", 8, 3));
  const ValueId open = b.Sigmoid(b.Slice(gates, 0, 4));
  b.Leave("y", b.Mul(open, b.Slice(gates, 4, 8)));
  const absl::StatusOr<LayoutProblem> problem = OperatorProblem(b.Build(), 2, {});
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(PrintProblem(*problem),
            "broadcasts copied\n"
            "input x.x 24\n"
            "constant W0.0 48\n"
            "value v2 32\n"
            "value v3 32\n"
            "constant W0.12 48\n"
            "value v5 32\n"
            "output v6 32\n"
            "fixed x.x\n"
            "op matmul v2 = W0.0 x.x\n"
            "op sigmoid v3 = v2\n"
            "op matmul v5 = W0.12 x.x\n"
            "op mul v6 = v3 v5\n");
}

TEST(OperatorProblemTest, NumbersThatACellStatesArePartOfWhatAnOperatorDoes) {
  CellBuilder b("numbers");
  const ValueId x = b.Read("x", "x", 2);
  b.Leave("y", b.Add(b.Sub(b.Constant(1.0f), x), b.Sub(b.Constant(2.0f), x)));
  const absl::StatusOr<LayoutProblem> problem = OperatorProblem(b.Build(), 1, {"x.x"});
  ASSERT_TRUE(problem.ok()) << problem.status();
  ASSERT_EQ(problem->batches.size(), 3u);
  EXPECT_NE(problem->batches[0].name, problem->batches[1].name);  // they never run as one
  EXPECT_EQ(problem->batches[0].operands.size(), 2u);
  EXPECT_TRUE(problem->fixed.empty()) << "x.x has a place in the plan";
}

// As one batch they would be one pass over memory: x - 1 for all, say.
TEST(OperatorProblemTest, WhichArgumentIsTheSameForEveryInstanceIsPartOfWhatAnOperatorDoes) {
  CellBuilder b("sides");
  const ValueId x = b.Read("x", "x", 2), one = b.Constant(1.0f), w = b.Vector("w", 2);
  const ValueId numbers = b.Mul(b.Sub(one, x), b.Sub(x, one));
  b.Leave("y", b.Mul(numbers, b.Mul(b.Sub(w, x), b.Sub(x, w))));
  const absl::StatusOr<CellOperators> operators = OperatorsOfCell(b.Build(), 1, {});
  ASSERT_TRUE(operators.ok()) << operators.status();
  std::set<std::string> subtractions;
  for (const OperandBatch& batch : operators->problem.batches) {
    if (batch.name.starts_with("sub")) subtractions.insert(batch.name);
  }
  EXPECT_EQ(subtractions, (std::set<std::string>{"sub_0.3f800000", "sub_1.3f800000",
                                                 "sub_0.weights", "sub_1.weights"}));
}

// Everything that an operator is there to be executed: where inputs and weights come from, and what outputs are.
TEST(OperatorProblemTest, VariablesSayWhereTheyComeFrom) {
  CellBuilder b("meaning");
  const ValueId x = b.Read("x", "x", 3);
  const ValueId gates = b.MatMul(x, b.Matrix("W", 8, 3));
  b.Leave("same", x);
  b.Leave("y", b.Tanh(b.Slice(gates, 4, 8)));
  const absl::StatusOr<CellOperators> operators = OperatorsOfCell(b.Build(), 2, {});
  ASSERT_TRUE(operators.ok()) << operators.status();
  ASSERT_EQ(operators->variables.size(), 4u);
  EXPECT_EQ(operators->outputs, (std::vector<VariableId>{0, 3}));
  EXPECT_TRUE(std::holds_alternative<BroughtLanes>(operators->variables[0].from));
  // Units 4 to 8 of W, stored [depth, units].
  EXPECT_EQ(std::get<StoredWeights>(operators->variables[1].from),
            (StoredWeights{ParameterId(0), 12, 1, 3, 3, 4}));
  EXPECT_TRUE(std::holds_alternative<MatMulOperator>(operators->variables[2].from));
  EXPECT_EQ(std::get<ElementWiseOperator>(operators->variables[3].from).op, TailOpKind::kTanh);
}

TEST(OperatorProblemTest, EveryRandomCellIsAProblemThatCanBeReadBack) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const absl::StatusOr<LayoutProblem> problem = OperatorProblem(testing::RandomCell(seed), 3, {});
    ASSERT_TRUE(problem.ok()) << "seed " << seed << ": " << problem.status();
    const absl::StatusOr<LayoutProblem> again = ParseProblem(PrintProblem(*problem));
    ASSERT_TRUE(again.ok()) << "seed " << seed << ": " << again.status();
    EXPECT_EQ(*again, *problem) << "seed " << seed;
  }
}

}  // namespace
}  // namespace cellbatch
