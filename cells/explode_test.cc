#include "cells/explode.h"

#include <gtest/gtest.h>

#include <map>

#include "cells/kernels/reference/interpreter.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

using testing::CellBuilder;

// One node of an exploded cell, by the interpreter, operator by operator.
RowValues RunExploded(const CellDefinition& cell, const Weights& weights,
                      const std::vector<RowValues>& inputs) {
  const ExplodedCell exploded = Explode(cell);
  std::vector<ColumnValues> left;
  for (const OperatorNode& node : exploded.nodes) {
    std::vector<RowValues> rows;
    for (const OperatorSource& s : node.sources) {
      const auto input = static_cast<size_t>(s.input.value());
      rows.push_back({s.node >= 0 ? left[static_cast<size_t>(s.node)]
                                  : inputs[input][static_cast<size_t>(s.column)]});
    }
    Weights its;
    for (const ValueId w : node.weights) its.push_back(EvaluateWeight(cell, weights, w));
    left.push_back(InterpretNode(*node.definition, its, rows)[0]);
  }
  RowValues row;
  for (const int32_t node : exploded.outputs) row.push_back(left[static_cast<size_t>(node)]);
  return row;
}

std::map<std::string, int> Count(const ExplodedCell& exploded) {
  std::map<std::string, int> counts;
  for (const OperatorNode& node : exploded.nodes) ++counts[node.definition->name()];
  return counts;
}

TEST(ExplodeTest, AnLstmIsItsOperators) {
  // Stacked, with two biases: two products, three additions of four gates, then as in a paper.
  EXPECT_EQ(Count(Explode(testing::LstmCell(3, 5))),
            (std::map<std::string, int>{
                {"MatMul", 2}, {"Add", 4}, {"Slice", 4}, {"Sigmoid", 3}, {"Tanh", 2}, {"Mul", 3}}));
}

TEST(ExplodeTest, WhatDependsOnWeightsAloneIsAWeight) {
  CellBuilder b("halves");
  const ValueId w = b.Matrix("W", 3, 8), x = b.Read("x", "x", 4);
  const ValueId left = b.Slice(w, 0, 4), right = b.Slice(w, 4, 8);
  const ValueId first = b.MatMul(x, left), second = b.MatMul(x, right);
  b.Leave("y", b.Add(first, second));
  const CellDefinition cell = b.Build();
  const ExplodedCell exploded = Explode(cell);
  EXPECT_EQ(Count(exploded), (std::map<std::string, int>{{"MatMul", 2}, {"Add", 1}}));
  EXPECT_EQ(exploded.nodes[0].weights, std::vector<ValueId>({left}));
  const Weights weights = testing::RandomWeights(cell, 3);
  const Weight half = EvaluateWeight(cell, weights, right);
  EXPECT_EQ(half.shape, Shape::Matrix(3, 4));
  EXPECT_EQ(half.data[5], weights[0].data[8 + 4 + 1]);
  EXPECT_EQ(EvaluateWeight(cell, weights, w).data, weights[0].data) << "shared, not copied";
}

TEST(ExplodeTest, WhatIsLeftAsItIsAndSumsOfRowsAreNodes) {
  CellBuilder b("as_it_is");
  b.Leave("sum", b.Read("children", "h", 4, ElementType::kFp32, Arity::kSum));
  b.Leave("x", b.Read("x", "x", 3));
  b.Leave("w", b.Vector("w", 2));
  const ExplodedCell exploded = Explode(b.Build());
  EXPECT_EQ(Count(exploded),
            (std::map<std::string, int>{{"SumOfRows", 1}, {"Copy", 1}, {"Weight", 1}}));
  EXPECT_EQ(exploded.outputs, std::vector<int32_t>({0, 1, 2}));
  EXPECT_TRUE(exploded.nodes[2].sources.empty());
}

TEST(ExplodeTest, WhatNobodyNeedsIsNoNode) {
  CellBuilder b("idle");
  const ValueId x = b.Read("x", "x", 3);
  b.Tanh(b.Sigmoid(x));
  b.Leave("y", b.Sigmoid(x));
  EXPECT_EQ(Count(Explode(b.Build())), (std::map<std::string, int>{{"Sigmoid", 1}}));
}

TEST(ExplodeTest, EqualOperatorsHaveEqualSignatures) {
  const ExplodedCell exploded = Explode(testing::LstmCellByGate(3, 5));
  std::map<std::string, std::string> name_of;  // by signature
  for (const OperatorNode& node : exploded.nodes) {
    const auto [at, is_new] = name_of.emplace(node.signature, node.definition->name());
    EXPECT_EQ(at->second, node.definition->name());
  }
  // Products of x and of h, additions of a bias and of two rows, Mul, Sigmoid, Tanh.
  EXPECT_EQ(name_of.size(), 7u);
}

TEST(ExplodeTest, RandomCellsComeOutTheSame) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const CellDefinition cell = testing::RandomCell(seed);
    const Weights weights = testing::RandomWeights(cell, seed);
    std::vector<RowValues> inputs;
    for (const Input& in : cell.inputs()) {
      inputs.emplace_back();
      for (const Column& c : in.reads) {
        const std::vector<float> row = testing::RandomFloats(c.width, seed + inputs.size());
        inputs.back().emplace_back(row.begin(), row.end());
      }
    }
    const RowValues whole = InterpretNode(cell, weights, inputs);
    const RowValues apart = RunExploded(cell, weights, inputs);
    ASSERT_EQ(whole.size(), apart.size());
    for (size_t c = 0; c < whole.size(); ++c) {
      ASSERT_EQ(whole[c].size(), apart[c].size());
      for (size_t i = 0; i < whole[c].size(); ++i) {
        // Weights that are computed are rounded to float once.
        EXPECT_NEAR(whole[c][i], apart[c][i], 1e-6) << "seed " << seed << " column " << c;
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch
