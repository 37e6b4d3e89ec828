// Damaged lines of cellbatch-learn's --requests: each is refused with a reason, or is a shape of which every number is
// within what it counts.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "server/learn/request_shape.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261122;

struct Valid {
  ShapeKind kind;
  const char* line;
};
constexpr Valid kCorpus[] = {
    {ShapeKind::kSequence, "23\t25"},
    {ShapeKind::kSpelled, "5 0 7 0 0 12"},
    {ShapeKind::kTranslation, "18\t22"},
    {ShapeKind::kTree, "(3 (2 It) (4 (2 's) (3 (2 a) (2 film))))"},
    {ShapeKind::kHeads, "5\tit is a good one\t2 0 5 5 2"},
    {ShapeKind::kLattice, R"({"n":6,"char_ids":[1,2],"words":[[0,2],[2,6],[3,5]],"word_ids":[7]})"},
    {ShapeKind::kGraph, R"({"types":[0,0,1,2],"edges":[[0,2,0],[1,2,1],[2,3,0]]})"},
    {ShapeKind::kTensors, R"({"A":[4,-1,7],"B":[[1,0],[2,2]],"C":{"dims":[3,64]}})"},
};

std::vector<std::string> Tokens() {
  return {"(",
          ")",
          "(2 w)",
          "(2 (2 a) (2 b))",
          "\t",
          " 0 ",
          "-1",
          "4294967296",
          "99999999999999999999",
          "[",
          "]",
          "[0,9]",
          "\"n\":",
          "1e9",
          "{}",
          "\xff",
          std::string(1, '\0')};
}

void ExpectWithin(ShapeKind kind, const RequestShape& shape) {
  ASSERT_GE(shape.length, 1);
  ASSERT_TRUE(shape.spelled.empty() || shape.spelled.size() == static_cast<size_t>(shape.length));
  if (kind == ShapeKind::kTranslation) {
    ASSERT_GE(shape.target, 1);
  }
  if (kind == ShapeKind::kTree) {
    ASSERT_EQ(shape.children.size() + 1, static_cast<size_t>(shape.length));
  }
  std::vector<int> parents(static_cast<size_t>(shape.length) + shape.children.size(), 0);
  for (size_t k = 0; k < shape.children.size(); ++k) {
    for (const int32_t child : shape.children[k]) {
      ASSERT_GE(child, 0);
      ASSERT_LT(child, shape.length + static_cast<int32_t>(k)) << "a child behind its parent";
      ASSERT_EQ(++parents[static_cast<size_t>(child)], 1) << "a child of two";
    }
  }
  for (const int32_t parent : shape.parents) {
    ASSERT_GE(parent, -1);
    ASSERT_LT(parent, shape.length);
  }
  for (const auto& [from, to, input] : shape.edges) {
    ASSERT_GE(from, 0);
    ASSERT_LT(from, to);
    ASSERT_LT(to, shape.length);
    ASSERT_GE(input, 0);
  }
  for (const int32_t type : shape.node_types) ASSERT_GE(type, 0);
  for (const ShapeTensor& tensor : shape.tensors) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) {
      ASSERT_GE(dim, 1);
      elements *= dim;
    }
    ASSERT_TRUE(tensor.numbers.empty() || tensor.numbers.size() == static_cast<size_t>(elements));
    ASSERT_LE(elements, int64_t{1} << 24);
  }
  for (const auto& [from, to] : shape.spans) {
    ASSERT_GE(from, 0);
    ASSERT_LT(from, to);
    ASSERT_LE(to, shape.length);
  }
}

TEST(RequestShapeFuzzTest, DamagedLinesAreRefusedWithAReasonOrAreShapes) {
  std::cout << "seed " << kSeed << "\n";
  Mutator mutator(kSeed, Tokens());
  int64_t accepted = 0, refused = 0;
  for (FuzzBudget budget(2000); budget.Next() && !HasFailure();) {
    const Valid& valid = kCorpus[mutator.Below(std::size(kCorpus))];
    const std::string line = mutator.Mutate(valid.line);
    const absl::StatusOr<RequestShape> shape = ParseShape(valid.kind, line);
    if (shape.ok()) {
      ++accepted;
      ExpectWithin(valid.kind, *shape);
    } else {
      ++refused;
      EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_NE(shape.status().message().find(" is no "), std::string::npos) << shape.status();
    }
    if (HasFailure()) std::cout << "line " << ::testing::PrintToString(line) << "\n";
  }
  std::cout << accepted << " accepted, " << refused << " refused\n";
  EXPECT_GT(accepted, (accepted + refused) / 20) << "the damage is too much to be read";
  EXPECT_GT(refused, (accepted + refused) / 20);
}

}  // namespace
}  // namespace cellbatch
