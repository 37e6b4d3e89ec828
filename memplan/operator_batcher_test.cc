#include "memplan/operator_batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <set>

#include "memplan/cost_report.h"
#include "memplan/problem_text.h"
#include "memplan/validator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 60902;

LayoutProblem Parse(std::string_view text) {
  auto problem = ParseProblem(text);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

std::vector<int> Sizes(const LayoutProblem& problem) {
  std::vector<int> sizes;
  for (const OperandBatch& batch : problem.batches) sizes.push_back(batch.size());
  return sizes;
}

TEST(OperatorBatcherTest, OperatorsOfOneSignatureRunTogetherAndOutputsAlone) {
  const auto batched = BatchOperators(Parse(R"(
input x 8
constant W1 64
constant W2 64
value a 8
value b 8
output p 8
output q 8
op matmul a = W1 x
op matmul b = W2 x
op tanh p = a
op tanh q = b
)"));
  ASSERT_TRUE(batched.ok()) << batched.status();
  EXPECT_EQ(Sizes(batched->problem), (std::vector<int>{2, 1, 1}));
  EXPECT_TRUE(batched->fewest);
  EXPECT_EQ(Validate(batched->problem, batched->layout), absl::OkStatus());
}

TEST(OperatorBatcherTest, OperatorsOfOtherSizesAreOfAnotherSignature) {
  const auto batched = BatchOperators(
      Parse("input x 8\ninput y 16\nvalue a 8\nvalue b 16\nop f a = x\nop f b = y\n"));
  ASSERT_TRUE(batched.ok());
  EXPECT_EQ(Sizes(batched->problem), (std::vector<int>{1, 1}));
}

TEST(OperatorBatcherTest, WaitingForOthersOfItsKindSavesASteps) {
  // Two chains, f g f and g f: taking the ready f first costs four steps, g first three.
  const auto batched = BatchOperators(Parse(R"(
input x 8
value a1 8
value a2 8
value b1 8
value b2 8
value b3 8
op f a1 = x
op g a2 = a1
op g b1 = x
op f b2 = b1
op g b3 = b2
)"));
  ASSERT_TRUE(batched.ok());
  EXPECT_EQ(batched->problem.batches.size(), 3u);
  EXPECT_TRUE(batched->fewest);
}

TEST(OperatorBatcherTest, CyclesAndBatchesAreRefusedByName) {
  const auto message = [](std::string_view text) {
    return std::string(BatchOperators(Parse(text)).status().message());
  };
  EXPECT_EQ(message("value a 8\nvalue b 8\nop f a = b\nop g b = a\n"),
            "operator f that writes a waits for itself");
  EXPECT_EQ(message("value a 8\nvalue b 8\nvalue c 8\nbatch f (a b) = (c c)\n"),
            "batch f has 2 operators already: only single operators can be batched");
}

// All sequences of types, by breadth first search over sets of finished operators.
int FewestSteps(const LayoutProblem& graph) {
  const int n = static_cast<int>(graph.batches.size());
  std::vector<uint32_t> needs(n, 0);
  for (int i = 0; i < n; ++i) {
    for (size_t o = 1; o < graph.batches[i].operands.size(); ++o) {
      for (int j = 0; j < n; ++j) {
        if (graph.batches[j].operands[0][0] == graph.batches[i].operands[o][0]) needs[i] |= 1u << j;
      }
    }
  }
  std::set<uint32_t> layer = {0};
  for (int steps = 0;; ++steps) {
    std::set<uint32_t> next;
    for (uint32_t done : layer) {
      if (done == (1u << n) - 1) return steps;
      for (char type = 'f'; type <= 'h'; ++type) {
        uint32_t step = 0;
        for (int i = 0; i < n; ++i) {
          const bool ready = !(done >> i & 1) && (needs[i] & ~done) == 0;
          if (ready && graph.batches[i].name[0] == type) step |= 1u << i;
        }
        if (step != 0) next.insert(done | step);
      }
    }
    layer = std::move(next);
  }
}

TEST(OperatorBatcherTest, TheNumberOfBatchesIsTheLeastOfAllSequences) {
  std::cout << "seed " << kSeed << "\n";
  std::mt19937_64 random(kSeed);
  int several = 0;
  for (int round = 0; round < 300; ++round) {
    LayoutProblem graph;
    graph.variables.push_back({"x", VariableKind::kInput, 8});
    for (int i = 0; i < 12; ++i) {
      graph.variables.push_back({"v" + std::to_string(i), VariableKind::kValue, 8});
      const VariableId from =
          random() % 4 == 0 ? 0 : std::max<int>(0, i - static_cast<int>(random() % 5));
      graph.batches.push_back(
          {std::string(1, static_cast<char>('f' + random() % 3)), {{i + 1}, {from}}});
    }
    const auto batched = BatchOperators(graph);
    ASSERT_TRUE(batched.ok()) << batched.status();
    ASSERT_TRUE(batched->fewest);
    ASSERT_EQ(static_cast<int>(batched->problem.batches.size()), FewestSteps(graph))
        << PrintProblem(graph);
    ASSERT_EQ(Validate(batched->problem, batched->layout), absl::OkStatus());
    several += batched->plans > 1;
  }
  std::cout << several << " graphs with several ways of fewest steps\n";
  EXPECT_GT(several, 10);
}

}  // namespace
}  // namespace cellbatch
