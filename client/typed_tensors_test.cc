#include "client/typed_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

  Tensor edges = Int32Tensor("EDGES", {1, 3}, {0, 1, 0});
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{-1, 3}, {int64_t{1} << 60, 3}, {int64_t{1} << 62, 4, 3}}) {
    edges.shape = shape;
    const auto typed = TypedFromTensors({Int32Tensor("NODE_TYPES", {2}, {0, 1}), edges});
    EXPECT_EQ(typed.status().code(), absl::StatusCode::kInvalidArgument) << shape[0];
    EXPECT_THAT(std::string(typed.status().message()), HasSubstr("tensor EDGES: ")) << shape[0];
  }
}

// Numbers that would be left over, or come to stand in other rows than their sender put them in.
TEST(TypedTensorsTest, AShapeThatIsNotTheTypedInputsIsAnError) {
  const Tensor types = Int32Tensor("NODE_TYPES", {2}, {0, 1});
  const Tensor chars = Int32Tensor("CHARS", {2}, {1, 2}),
               tokens = Int32Tensor("TOKENS", {2}, {1, 2});
  const auto ints = [](const char* name, std::vector<int64_t> shape) {
    const auto count = ElementCount(shape);
    return Int32Tensor(name, shape, std::vector<int32_t>(static_cast<size_t>(*count), 1));
  };
  const auto floats = [](const char* name, std::vector<int64_t> shape) {
    const auto count = ElementCount(shape);
    return FloatTensor(name, shape, std::vector<float>(static_cast<size_t>(*count), 1));
  };
  const int64_t wide = (int64_t{1} << 32) + 2;  // 2 in 32 bits
  struct Case {
    std::vector<Tensor> tensors;
    const char *name, *shape, *wanted;
  };
  const Case cases[] = {
      {{types, ints("EDGES", {4})}, "EDGES", "[4]", "[-1, 3]"},
      {{types, ints("EDGES", {6})}, "EDGES", "[6]", "[-1, 3]"},
      {{types, ints("EDGES", {1, 4})}, "EDGES", "[1, 4]", "[-1, 3]"},
      {{types, ints("EDGES", {3, 2})}, "EDGES", "[3, 2]", "[-1, 3]"},
      {{types, ints("EDGES", {1, 2, 3})}, "EDGES", "[1, 2, 3]", "[-1, 3]"},
      {{types, ints("EDGES", {0})}, "EDGES", "[0]", "[-1, 3]"},
      {{ints("NODE_TYPES", {1, 2})}, "NODE_TYPES", "[1, 2]", "[-1]"},
      {{ints("NODE_TYPES", {})}, "NODE_TYPES", "[]", "[-1]"},
      {{types, floats("leaf.x", {1, 2, 3})}, "leaf.x", "[1, 2, 3]", "[-1, -1]"},
      {{types, floats("leaf.x", {})}, "leaf.x", "[]", "[-1, -1]"},
      {{types, floats("leaf.x", {2, 0})}, "leaf.x", "[2, 0]", "[-1, -1]"},
      {{types, floats("leaf.x", {0, wide})}, "leaf.x", "[0, 4294967298]", "2147483647"},
      {{chars, ints("WORDS", {2, 2})}, "WORDS", "[2, 2]", "[-1, 3]"},
      {{chars, ints("WORDS", {3})}, "WORDS", "[3]", "[-1, 3]"},
      {{ints("CHARS", {2, 1}), ints("WORDS", {1, 3})}, "CHARS", "[2, 1]", "[-1]"},
      {{tokens, ints("CHILDREN", {3})}, "CHILDREN", "[3]", "[-1, 2]"},
      {{tokens, ints("CHILDREN", {2, 3})}, "CHILDREN", "[2, 3]", "[-1, 2]"},
      {{ints("TOKENS", {1, 3}), ints("PARENT", {3})}, "TOKENS", "[1, 3]", "[-1]"},
      {{tokens, ints("PARENT", {2, 1})}, "PARENT", "[2, 1]", "[-1]"},
      {{tokens, ints("PARENT", {2}), ints("INTERNAL_TYPES", {1, 1})},
       "INTERNAL_TYPES",
       "[1, 1]",
       "[-1]"},
      {{ints("TOKENS", {1, 3})}, "TOKENS", "[1, 3]", "[-1]"},
      {{ints("SOURCE", {3, 1})}, "SOURCE", "[3, 1]", "[-1]"},
      {{tokens, ints("CHAR_IDS", {3, 1}), ints("CHAR_LENGTHS", {2})}, "CHAR_IDS", "[3, 1]", "[-1]"},
      {{tokens, ints("CHAR_IDS", {3}), ints("CHAR_LENGTHS", {1, 2})},
       "CHAR_LENGTHS",
       "[1, 2]",
       "[-1]"},
      {{floats("X", {6})}, "X", "[6]", "[-1, -1]"},
      {{floats("X", {2, 3, 4})}, "X", "[2, 3, 4]", "[-1, -1]"},
      {{floats("X", {2, 0})}, "X", "[2, 0]", "[-1, -1]"},
      {{floats("X", {0, wide})}, "X", "[0, 4294967298]", "2147483647"},
  };
  for (const Case& c : cases) {
    const auto typed = TypedFromTensors(c.tensors);
    EXPECT_EQ(typed.status().code(), absl::StatusCode::kInvalidArgument) << c.name << c.shape;
    EXPECT_THAT(std::string(typed.status().message()),
                AllOf(HasSubstr(std::string("tensor ") + c.name + ": "),
                      HasSubstr(std::string("shape ") + c.shape), HasSubstr(c.wanted)));
  }
}

TEST(TypedTensorsTest, OfTwoTensorsOfANameNoneIsLost) {
  const auto twice =
      TypedFromTensors({Int32Tensor("TOKENS", {1}, {7}), Int32Tensor("TOKENS", {2}, {8, 9})});
  EXPECT_EQ(twice.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(twice.status().message()), HasSubstr("tensor TOKENS: a second time"));
}

// Servers have not always taken typed rows of several integers; ModelInfer's they do.
TEST(TypedTensorsTest, AGraphWithRowsOfSeveralIntegersStaysTensors) {
  const std::vector<Tensor> tensors = {Int32Tensor("NODE_TYPES", {2}, {0, 0}),
                                       Int32Tensor("leaf.word", {2, 2}, {1, 2, 3, 4})};
  const auto typed = TypedFromTensors(tensors);
  ASSERT_TRUE(typed.ok()) << typed.status();
  ASSERT_TRUE(std::holds_alternative<std::vector<Tensor>>(*typed));
  EXPECT_EQ(std::get<std::vector<Tensor>>(*typed)[1].bytes, tensors[1].bytes);
}

TEST(TypedTensorsTest, NothingIsNoSequence) {
  const auto typed = TypedFromTensors({});
  ASSERT_TRUE(typed.ok()) << typed.status();
  EXPECT_TRUE(std::holds_alternative<std::vector<Tensor>>(*typed));
}

}  // namespace
}  // namespace cellbatch
