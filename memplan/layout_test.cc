#include <gtest/gtest.h>

#include <functional>

#include "memplan/cost_report.h"
#include "memplan/memory_layout.h"
#include "memplan/naive_layout.h"
#include "memplan/validator.h"

namespace cellbatch {
namespace {

// constant A B, input x y, value a b c: (a b) = (A B) (x x); (c) = (a)
LayoutProblem Small(Broadcasts broadcasts) {
  LayoutProblem problem;
  problem.variables = {{"A", VariableKind::kConstant, 64}, {"x", VariableKind::kInput, 8},
                       {"B", VariableKind::kConstant, 64}, {"a", VariableKind::kValue, 8},
                       {"c", VariableKind::kOutput, 8},    {"b", VariableKind::kValue, 8}};
  problem.batches = {{"product", {{3, 5}, {0, 2}, {1, 1}}}, {"tail", {{4}, {3}}}};
  problem.broadcasts = broadcasts;
  return problem;
}

TEST(NaiveLayoutTest, CopiesWhateverDeclarationOrderDoesNotBringTogether) {
  const LayoutProblem problem = Small(Broadcasts::kCopied);
  const auto layout = NaiveLayout(problem);
  ASSERT_TRUE(layout.ok());
  EXPECT_EQ(Validate(problem, *layout), absl::OkStatus());
  const CostReport cost = Cost(problem, *layout);
  EXPECT_EQ(cost.scatters, 1);  // a b
  EXPECT_EQ(cost.gathers, 2);   // A B, x x
  EXPECT_EQ(cost.bytes(), 16 + 128 + 16);
  EXPECT_EQ(cost.input_gathers, 1);
  EXPECT_EQ(NaivePackedLayout(problem).copies.size(), 2u);
  EXPECT_EQ(Cost(problem, NaivePackedLayout(problem)).packed_bytes, 128);
}

TEST(CostReportTest, ABroadcastByStrideCutsABatchOnlyWhereItStartsAnew) {
  LayoutProblem problem;
  for (const char* name : {"x", "h", "a", "b", "c", "d", "e"}) {
    problem.variables.push_back({name, VariableKind::kValue, 8});
  }
  problem.broadcasts = Broadcasts::kByStride;
  const auto launches = [&](std::vector<OperandBatch> batches) {
    problem.batches = std::move(batches);
    const auto layout = NaiveLayout(problem);
    EXPECT_EQ(Validate(problem, *layout), absl::OkStatus());
    EXPECT_TRUE(layout->copies.empty());
    return Cost(problem, *layout).launches;
  };
  EXPECT_EQ(launches({{"all one", {{2, 3, 4, 5}, {0, 0, 0, 0}}}}), 1);
  EXPECT_EQ(launches({{"two strides", {{2, 3, 4, 5}, {0, 0, 1, 1}}}}), 1);
  EXPECT_EQ(launches({{"two strides, wrong way round", {{2, 3, 4, 5}, {1, 1, 0, 0}}}}), 2);
  EXPECT_EQ(launches({{"uneven", {{2, 3, 4, 5, 6}, {0, 0, 0, 1, 1}}}}), 2);
  EXPECT_EQ(launches({{"and singles", {{4, 5, 6}, {0, 0, 1}}}}), 2);
  EXPECT_EQ(launches({{"several singles", {{3, 4, 5, 6}, {0, 0, 1, 2}}}}), 2);
}

TEST(CostReportTest, BytesOfInputsAndOfPackedConstantsAreAddedUp) {
  LayoutProblem problem;
  problem.variables = {{"A", VariableKind::kConstant, 64}, {"x", VariableKind::kInput, 8},
                       {"B", VariableKind::kConstant, 64}, {"y", VariableKind::kInput, 24},
                       {"C", VariableKind::kConstant, 64}, {"a", VariableKind::kValue, 8},
                       {"b", VariableKind::kValue, 8},     {"c", VariableKind::kValue, 8},
                       {"d", VariableKind::kValue, 8}};
  problem.batches = {{"p", {{5, 6}, {0, 2}}}, {"q", {{7, 8}, {0, 4}}}};
  problem.broadcasts = Broadcasts::kCopied;
  const CostReport cost = Cost(problem, NaivePackedLayout(problem));
  EXPECT_EQ(cost.packed_bytes, 256);
  EXPECT_EQ(cost.input_gathers, 2);
  EXPECT_EQ(cost.input_bytes, 32);
}

TEST(ValidatorTest, FindsEveryKindOfLie) {
  const LayoutProblem problem = Small(Broadcasts::kByStride);
  const MemoryLayout good = NaivePackedLayout(problem);
  ASSERT_EQ(Validate(problem, good), absl::OkStatus());
  const auto verdict = [&](const std::function<void(MemoryLayout&)>& lie) {
    MemoryLayout layout = good;
    lie(layout);
    return std::string(Validate(problem, layout).message());
  };
  EXPECT_EQ(verdict([](auto& l) { l.copies.clear(); }),
            "batch product: operand 0 is neither copied nor in place: a@136 b@152");
  EXPECT_EQ(verdict([](auto& l) {
              l.copies.push_back({{1, 0}, CopyReason::kConflict, 8});
            }),
            "batch tail: operand 0 is copied or packed needlessly");
  EXPECT_EQ(verdict([](auto& l) { l.copies[0].bytes = 3; }),
            "batch product: the copy of operand 0 is said to move 3 bytes, it moves 16");
  EXPECT_EQ(verdict([](auto& l) { l.copies.push_back(l.copies[0]); }),
            "batch product: operand 0 is copied or packed twice");
  EXPECT_EQ(verdict([](auto& l) {
              l.packed.push_back({0, 2});
            }),
            "batch product: operand 2 is packed at load, but x is not a constant");
  EXPECT_EQ(verdict([](auto& l) {
              l.packed.push_back({7, 2});
            }),
            "operand 2 of batch 7 is copied or packed; there is none");
  EXPECT_EQ(verdict([](auto& l) { l.order.pop_back(); }), "160 bytes claimed, 152 laid out");
  EXPECT_EQ(verdict([](auto& l) {
              l.order.pop_back();
              l.bytes = 152;
            }),
            "b has no place");
  EXPECT_EQ(verdict([](auto& l) { std::swap(l.order[0], l.order[1]); }),
            "x is said to lie at 64, those before it end at 0");
  EXPECT_EQ(verdict([](auto& l) { l.order[1] = l.order[0]; }),
            "A is placed twice, or fixed and placed");
  EXPECT_EQ(verdict([](auto& l) { l.order[1] = 99; }), "variable 99 of 6 is placed");
  EXPECT_EQ(verdict([](auto& l) {
              l.operator_order[0] = {0, 0};
            }),
            "batch product runs operator 0 twice or not its own");
  EXPECT_EQ(verdict([](auto& l) { l.operator_order[0] = {1}; }),
            "batch product runs 1 of its 2 operators");
  EXPECT_EQ(verdict([](auto& l) { l.operator_order.pop_back(); }),
            "1 operator orders for 2 batches");
}

}  // namespace
}  // namespace cellbatch
