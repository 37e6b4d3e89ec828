#include "client/typed_tensors.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

// (That typed inputs get the bits of their tensors is the claim of tests/e2e/typed_test.)
TEST(TypedTensorsTest, TheTensorsNamesSayWhatTheyAre) {
  const auto vectors = TypedFromTensors({FloatTensor("X", {2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(vectors.ok()) << vectors.status();
  EXPECT_EQ(std::get<SequenceInput>(*vectors).width, 3);
  EXPECT_EQ(std::get<SequenceInput>(*vectors).vectors.size(), 6u);

  const auto source = TypedFromTensors({Int32Tensor("SOURCE", {2}, {7, 8})});
  EXPECT_EQ(std::get<SequenceInput>(*source).tokens, (std::vector<int32_t>{7, 8}));

  const auto tree = TypedFromTensors(
      {Int32Tensor("TOKENS", {3}, {7, 8, 9}), Int32Tensor("CHILDREN", {2, 2}, {1, 2, 0, 3})});
  EXPECT_EQ(std::get<TreeInput>(*tree).left, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(std::get<TreeInput>(*tree).right, (std::vector<int32_t>{2, 3}));

  const auto lattice = TypedFromTensors(
      {Int32Tensor("CHARS", {3}, {1, 2, 3}), Int32Tensor("WORDS", {1, 3}, {0, 2, 40})});
  ASSERT_EQ(std::get<LatticeInput>(*lattice).words.size(), 1u);
  EXPECT_EQ(std::get<LatticeInput>(*lattice).words[0].word, 40);

  const auto graph = TypedFromTensors({Int32Tensor("NODE_TYPES", {2}, {0, 1}),
                                       Int32Tensor("EDGES", {1, 3}, {0, 1, 0}),
                                       FloatTensor("leaf.x", {1, 2}, {0.5f, 1})});
  ASSERT_EQ(std::get<GraphInput>(*graph).rows.size(), 1u);
  EXPECT_EQ(std::get<GraphInput>(*graph).rows[0].width, 2);
}

TEST(TypedTensorsTest, EveryTensorHasItsPlace) {
  using Ints = std::vector<int32_t>;
  const auto sequence =
      TypedFromTensors({Int32Tensor("TOKENS", {2}, {7, 8}), Int32Tensor("CHAR_IDS", {3}, {1, 2, 3}),
                        Int32Tensor("CHAR_LENGTHS", {2}, {3, 0})});
  EXPECT_EQ(std::get<SequenceInput>(*sequence).character_ids, (Ints{1, 2, 3}));
  EXPECT_EQ(std::get<SequenceInput>(*sequence).character_counts, (Ints{3, 0}));

  const auto tree =
      TypedFromTensors({Int32Tensor("TOKENS", {2}, {7, 8}), Int32Tensor("PARENT", {2}, {-1, 0}),
                        Int32Tensor("INTERNAL_TYPES", {1}, {4})});
  EXPECT_EQ(std::get<TreeInput>(*tree).parents, (Ints{-1, 0}));
  EXPECT_EQ(std::get<TreeInput>(*tree).internal_types, (Ints{4}));

  const auto lattice = TypedFromTensors(
      {Int32Tensor("CHARS", {3}, {1, 2, 3}), Int32Tensor("WORDS", {2, 3}, {0, 2, 40, 1, 3, 41})});
  ASSERT_EQ(std::get<LatticeInput>(*lattice).words.size(), 2u);
  EXPECT_EQ(std::get<LatticeInput>(*lattice).words[1].start, 1);
  EXPECT_EQ(std::get<LatticeInput>(*lattice).words[1].end, 3);

  const auto graph = TypedFromTensors(
      {Int32Tensor("NODE_TYPES", {2}, {0, 1}), Int32Tensor("EDGES", {2, 3}, {0, 1, 2, 3, 4, 5}),
       Int32Tensor("leaf.word", {2}, {8, 9}), FloatTensor("leaf.x", {2}, {0.5f, 1})});
  const GraphInput& read = std::get<GraphInput>(*graph);
  EXPECT_EQ(read.node_types, (Ints{0, 1}));
  ASSERT_EQ(read.edges.size(), 2u);
  EXPECT_EQ(read.edges[1].from, 3);
  EXPECT_EQ(read.edges[1].to, 4);
  EXPECT_EQ(read.edges[1].input, 5);
  ASSERT_EQ(read.rows.size(), 2u);
  EXPECT_EQ(read.rows[0].integers, (Ints{8, 9}));
  EXPECT_EQ(read.rows[1].width, 1);
}

TEST(TypedTensorsTest, WhatHasNoTypeStaysTensors) {
  for (const char* beside : {"TOKENS", "CHARS", "CHILDREN", "PARENT", "X", "SOURCE"}) {
    const std::vector<Tensor> several = {Int32Tensor(beside, {3}, {7, 8, 9}),
                                         Int32Tensor("LENGTHS", {2}, {1, 2})};
    const auto typed = TypedFromTensors(several);
    ASSERT_TRUE(typed.ok()) << typed.status();
    ASSERT_TRUE(std::holds_alternative<std::vector<Tensor>>(*typed)) << beside;
    EXPECT_EQ(std::get<std::vector<Tensor>>(*typed).size(), 2u);
  }
}

TEST(TypedTensorsTest, BytesThatAreNotTheShapesAreAnError) {
  Tensor tokens = Int32Tensor("TOKENS", {3}, {7, 8, 9});
  tokens.bytes.pop_back();
  EXPECT_EQ(TypedFromTensors({tokens}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(TypedFromTensors({FloatTensor("TOKENS", {1}, {7})}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cellbatch
