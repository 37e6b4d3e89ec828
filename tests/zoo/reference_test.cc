// The references against numbers worked out by hand: a unit of one or two dimensions and weights of a
// kind that leave something to write down.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/zoo/reference_chain.h"
#include "tests/zoo/reference_translation.h"
#include "tests/zoo/reference_tree.h"

namespace cellbatch::zoo {
namespace {

TEST(MathTest, ProductsAndStacks) {
  const Mat m{2, 3, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(m * Vec({1, 0, -1}), Vec({-2, -2}));
  EXPECT_EQ((m * Mat{3, 1, {1, 1, 1}}).values, Vec({6, 15}));
  EXPECT_EQ(Vec({2, 3}) * Vec({4, 5}), Vec({8, 15}));
  EXPECT_EQ(Gate(m, 1, 2).values, Vec({4, 5, 6}));
  EXPECT_EQ(Gate(Vec({1, 2, 3, 4}), 1, 2), Vec({3, 4}));
  EXPECT_EQ(Row(m, 1), Vec({4, 5, 6}));
  EXPECT_EQ(Concat(m, Mat{1, 3, {7, 8, 9}}).rows, 3u);
  EXPECT_EQ(1 - Vec({0.25}), Vec({0.75}));
  EXPECT_EQ(ArgMax({1, 3, 3, 2}), 1u);
  EXPECT_DOUBLE_EQ(Sigmoid({std::log(3.0)})[0], 0.75);
}

TEST(WeightsTest, ValuesFollowFromSeedAndNameAlone) {
  WeightSet one(7), two(7), other(8);
  one.AddTable("a", 3, 4);
  one.AddTable("b", 3, 4);
  two.AddTable("b", 3, 4);
  other.AddTable("b", 3, 4);
  EXPECT_EQ(one.M("b").values, two.M("b").values);
  EXPECT_NE(one.M("a").values, one.M("b").values);
  EXPECT_NE(one.M("b").values, other.M("b").values);
  two.AddMatrix("m", 2, 64);
  for (const double w : two.M("m").values) EXPECT_LE(std::abs(w), 0.125);
}

// LSTM of one unit, one input, one step from h = c = 0, written out.
TEST(ReferenceTest, AnLstmStepIsTheFormula) {
  WeightSet weights(1);
  weights.AddMatrix("cell.W", 4, 1);
  weights.AddMatrix("cell.U", 4, 1);
  weights.AddBias("cell.b", 4);
  const auto w = weights.M("cell.W").values, u = weights.M("cell.U").values;
  const Vec b = weights.V("cell.b");
  const double x = 0.3, h = -0.4, c = 0.7;
  const auto gate = [&](size_t k) { return b[k] + w[k] * x + u[k] * h; };
  const auto s = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double next = s(gate(0)) * std::tanh(gate(2)) + s(gate(1)) * c;
  const LstmState state = LstmEquations(weights, "cell").Step({x}, {{h}, {c}});
  EXPECT_DOUBLE_EQ(state.c[0], next);
  EXPECT_DOUBLE_EQ(state.h[0], s(gate(3)) * std::tanh(next));
}

TEST(ReferenceTest, BackwardIsForwardOfTheReversed) {
  WeightSet weights(1);
  weights.AddMatrix("cell.W", 8, 1);
  weights.AddMatrix("cell.U", 8, 2);
  weights.AddBias("cell.b", 8);
  const LstmEquations cell(weights, "cell");
  const auto there = Forward(cell, {{1}, {2}, {3}}), back = Backward(cell, {{3}, {2}, {1}});
  EXPECT_EQ(there[0], back[2]);
  EXPECT_EQ(there[2], back[0]);
}

// A chain of two words, each the other's child or parent, and a word with two children: what differs
// between the nodes is only how many children they have.
TEST(ReferenceTest, AChildSumNodeAddsWhatItsChildrenLeave) {
  WeightSet weights(1);
  weights.AddMatrix("node.W", 3, 1);
  weights.AddMatrix("node.U", 3, 1);
  weights.AddBias("node.b", 3);
  weights.AddMatrix("edge.W_f", 1, 1);
  weights.AddMatrix("edge.U_f", 1, 1);
  weights.AddBias("edge.b_f", 1);
  weights.Add("output.W", {1, 1}, 1);
  weights.AddBias("output.b", 1);
  const double x = 0.5, out = weights.M("output.W").values[0], bias = weights.V("output.b")[0];
  const Vec w = weights.M("node.W").values, u = weights.M("node.U").values, b = weights.V("node.b");
  const auto s = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto gate = [&](size_t k, double h) { return w[k] * x + u[k] * h + b[k]; };
  const double c1 = s(gate(0, 0)) * std::tanh(gate(2, 0));
  const double h1 = s(gate(1, 0)) * std::tanh(c1);
  const double f = s(weights.M("edge.W_f").values[0] * x + weights.M("edge.U_f").values[0] * h1 +
                     weights.V("edge.b_f")[0]);
  for (const int children : {1, 2}) {
    DependencyTree tree;
    tree.words.assign(static_cast<size_t>(children) + 1, "same");
    tree.parent.assign(tree.words.size(), 0);
    tree.parent[0] = -1;
    const auto y = ChildSumReference(weights, std::vector<Vec>(tree.words.size(), {x}), tree);
    const double h_sum = children * h1;
    const double c = s(gate(0, h_sum)) * std::tanh(gate(2, h_sum)) + children * f * c1;
    EXPECT_NEAR(y[1][0], out * h1 + bias, 1e-15);
    EXPECT_NEAR(y[0][0], out * s(gate(1, h_sum)) * std::tanh(c) + bias, 1e-15);
  }
}

TEST(ReferenceTest, AWordIsRightWhereItIsAsGoodAsTheBest) {
  const std::vector<Vec> y = {{0, 1, 1 - 1e-6}, {0, 1, 0.9}, {3, 1, 0}};
  EXPECT_EQ(RightWords(y, {2, 2, 0}), (std::vector<int32_t>{2, 1, 0}));
}

}  // namespace
}  // namespace cellbatch::zoo
