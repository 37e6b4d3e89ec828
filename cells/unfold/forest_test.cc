#include "cells/unfold/forest.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Ints = std::vector<int32_t>;

// A request of INT32 tensors and a text; it owns what its input borrows.
class ForestTest : public testing::Test {
 protected:
  struct Request {
    Ints tokens = {}, children = {}, parents = {}, types = {};
    std::optional<std::string> text = {};
    std::optional<Ints> lengths = {};
  };

  static ForestRules Rules() {
    auto vocabulary = Vocabulary::Create("a\nb\nc\nna\xc3\xafve\n");
    EXPECT_TRUE(vocabulary.ok());
    return {.words = {.size = 10, .unknown = {}},
            .vocabulary = *vocabulary,
            .max_nodes = 1 << 20,
            .num_types = 2};
  }

  absl::StatusOr<Forest> Read(Request request, const ForestRules& rules = Rules()) {
    request_ = std::move(request);
    RequestInput input;
    const auto add = [&](const char* name, const Ints& values, TensorDims dims) {
      input.tensors.push_back(
          {name, WireType::kInt32, std::move(dims),
           absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                               values.size() * 4)});
    };
    const auto count = [](const Ints& values) { return static_cast<int64_t>(values.size()); };
    const Request& r = request_;
    if (!r.tokens.empty()) add(kTokens, r.tokens, {count(r.tokens)});
    if (!r.children.empty()) add(kChildrenInput, r.children, {count(r.children) / 2, 2});
    if (!r.parents.empty()) add(kParentInput, r.parents, {count(r.parents)});
    if (!r.types.empty()) add(kInternalTypesInput, r.types, {count(r.types)});
    if (r.lengths) add("LENGTHS", *r.lengths, {count(*r.lengths)});
    if (r.text) {
      const auto length = static_cast<uint32_t>(r.text->size());
      framed_.assign(reinterpret_cast<const char*>(&length), 4);
      framed_ += *r.text;
      input.tensors.push_back(
          {kTreeInput,
           WireType::kBytes,
           {1},
           absl::MakeConstSpan(reinterpret_cast<const std::byte*>(framed_.data()),
                               framed_.size())});
    }
    graph_ = CellGraph();
    return ReadForest(input, rules, graph_);
  }

  std::string ErrorOf(Request request, const ForestRules& rules = Rules()) {
    const absl::StatusOr<Forest> forest = Read(std::move(request), rules);
    if (forest.ok()) return "accepted";
    EXPECT_EQ(forest.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(forest.status().message());
  }
  std::string ErrorOfChildren(int32_t leaves, Ints children) {
    return ErrorOf(
        {.tokens = Ints(static_cast<size_t>(leaves), 1), .children = std::move(children)});
  }
  std::string ErrorOfParents(Ints parents) {
    Ints tokens(parents.size(), 1);
    return ErrorOf({.tokens = std::move(tokens), .parents = std::move(parents)});
  }

  static Ints Tokens(const Forest& forest) {
    const int32_t rows = forest.all.leaves + (forest.node_tokens ? forest.all.internals : 0);
    Ints tokens(static_cast<size_t>(rows));
    std::memcpy(tokens.data(), forest.tokens, tokens.size() * 4);
    return tokens;
  }

  static constexpr char kTokens[] = "TOKENS";
  Request request_;
  std::string framed_;
  CellGraph graph_;
};

TEST_F(ForestTest, ChildrenAreTakenAsTheyAre) {
  const auto f = Read({.tokens = {4, 5, 6}, .children = {1, 2, 0, 3}, .types = {1, 0}});
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(f->trees.size(), 1u);
  EXPECT_EQ(f->all.leaves, 3);
  EXPECT_EQ(f->all.internals, 2);
  EXPECT_THAT(f->ChildrenOf(1), ElementsAre(0, 3));
  EXPECT_THAT(f->types, ElementsAre(1, 0));
  EXPECT_THAT(f->numbers, IsEmpty());
  EXPECT_EQ(f->tokens, reinterpret_cast<const std::byte*>(request_.tokens.data()))
      << "nothing is copied";
}

TEST_F(ForestTest, ParentsAreOrderedSoThatLeavesOfOneParentLieTogether) {
  //        2
  //      / | \.
  //     0  4  5        4: 1 3
  const auto f = Read({.tokens = {7, 8, 9, 1, 2, 3},
                       .children = {},
                       .parents = {2, 4, -1, 4, 2, 2},
                       .types = {0, 1}});
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(f->all.leaves, 4);
  EXPECT_THAT(f->numbers, ElementsAre(1, 3, 0, 5, 4, 2));
  EXPECT_THAT(f->ChildrenOf(0), ElementsAre(0, 1));
  EXPECT_THAT(f->ChildrenOf(1), ElementsAre(2, 4, 3)) << "in the order of the request's numbers";
  EXPECT_THAT(Tokens(*f), ElementsAre(8, 1, 7, 3, 2, 9));
  EXPECT_THAT(f->types, ElementsAre(1, 0)) << "of nodes 2 and 4, in this order, they were";
}

TEST_F(ForestTest, TextIsLookedUp) {
  const auto f = Read({.tokens = {}, .text = "(1 (2 na\xc3\xafve) (3 (1 c) (1 a)))"});
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_THAT(Tokens(*f), ElementsAre(3, 2, 0));
  EXPECT_THAT(f->ChildrenOf(0), ElementsAre(1, 2));
  EXPECT_THAT(f->ChildrenOf(1), ElementsAre(0, 3));
  EXPECT_EQ(ErrorOf({.text = "(1 (2 a) (2 \xc3\xbc))"}),
            "input TREE: word 1 (\"\\303\\274\") is not in the vocabulary");
  ForestRules rules = Rules();
  rules.words.unknown = 2;
  const auto unknown = Read({.text = "(1 (2 a) (2 zebra))"}, rules);
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_THAT(Tokens(*unknown), ElementsAre(0, 2));
  rules.vocabulary = nullptr;
  EXPECT_EQ(ErrorOf({.text = "(1 a)"}, rules),
            "input TREE: the model has no vocabulary.txt to look words up in");
}

TEST_F(ForestTest, SeveralTreesEndToEndNumberTheirNodesEachFromZero) {
  const auto children = Read(
      {.tokens = {1, 2, 3, 4, 5, 6}, .children = {1, 0, 0, 1, 3, 2}, .lengths = Ints{2, 1, 3}});
  ASSERT_TRUE(children.ok()) << children.status();
  ASSERT_EQ(children->trees.size(), 3u);
  EXPECT_EQ(children->trees[2].internals, 2);
  EXPECT_THAT(children->ChildrenOf(2), ElementsAre(3, 2));

  const auto parents = Read({.tokens = {1, 2, 3, 4, 5},
                             .parents = {1, -1, 2, 0, -1},
                             .types = {1, 0, 1},
                             .lengths = Ints{2, 3}});
  ASSERT_TRUE(parents.ok()) << parents.status();
  EXPECT_THAT(parents->numbers, ElementsAre(0, 1, 1, 0, 2));
  EXPECT_THAT(parents->types, ElementsAre(1, 0, 1));
  EXPECT_THAT(Tokens(*parents), ElementsAre(1, 2, 4, 3, 5));

  const auto text = Read({.text = "(1 (2 a) (2 b)) (3 c)", .lengths = Ints{2, 1}});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->trees[1].internals, 0);
  EXPECT_TRUE(text->several);
}

TEST_F(ForestTest, ASingleLeafIsATreeInEveryForm) {
  EXPECT_EQ(ErrorOf({.tokens = {1}}), "accepted");
  EXPECT_EQ(ErrorOf({.tokens = {1}, .parents = {-1}}), "accepted");
  EXPECT_EQ(ErrorOf({.text = "(a)"}), "accepted");
  RequestInput empty;
  const int32_t token = 1;
  empty.tensors = {{"TOKENS",
                    WireType::kInt32,
                    {1},
                    absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&token), 4)},
                   {"CHILDREN", WireType::kInt32, {0, 2}, {}},
                   {"INTERNAL_TYPES", WireType::kInt32, {0}, {}}};
  EXPECT_TRUE(ReadForest(empty, Rules(), graph_).ok());
}

TEST_F(ForestTest, ChildrenThatAreNoTreeAreRefusedWithTheirPlace) {
  EXPECT_EQ(ErrorOfChildren(3, {1, 2, 0, 3}), "accepted");
  EXPECT_EQ(ErrorOfChildren(3, {1, 2, 0, 5}),
            "input CHILDREN: row 1 (node 4): child 1 is 5, the nodes before it are 0 to 3");
  EXPECT_EQ(ErrorOfChildren(3, {1, 2, 4, 3}),
            "input CHILDREN: row 1 (node 4): child 0 is 4, the nodes before it are 0 to 3");
  EXPECT_EQ(ErrorOfChildren(3, {1, -1, 0, 3}),
            "input CHILDREN: row 0 (node 3): child 1 is -1, the nodes before it are 0 to 2");
  EXPECT_EQ(
      ErrorOfChildren(3, {1, INT32_MIN, 0, 3}),
      "input CHILDREN: row 0 (node 3): child 1 is -2147483648, the nodes before it are 0 to 2");
  EXPECT_EQ(ErrorOfChildren(3, {1, 2, 1, 3}),
            "input CHILDREN: row 1 (node 4): child 0 is 1, which is a child of node 3 already");
  EXPECT_EQ(ErrorOfChildren(2, {1, 1}),
            "input CHILDREN: row 0 (node 2): child 1 is 1, which is a child of node 2 already");
  EXPECT_EQ(ErrorOfChildren(3, {}), "input CHILDREN: 0 rows, a binary tree of 3 leaves has 2");
  EXPECT_EQ(ErrorOfChildren(4, {0, 1, 2, 3}),
            "input CHILDREN: 2 rows, a binary tree of 4 leaves has 3")
      << "two roots";
  EXPECT_EQ(ErrorOfChildren(1, {0, 0}), "input CHILDREN: 1 rows, a binary tree of 1 leaves has 0");
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1, 1}, .children = {0, 1}, .lengths = Ints{2, 2}}),
            "input CHILDREN: 1 rows, 2 binary trees of 4 leaves has 2");
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1, 1}, .children = {0, 1, 0, 2}, .lengths = Ints{2, 2}}),
            "input CHILDREN: tree 1: row 1 (node 2): child 1 is 2, the nodes before it are 0 to 1");
  EXPECT_EQ(ErrorOf({.tokens = {1, 10}, .children = {0, 1}}),
            "input TOKENS: token 1 is 10, the vocabulary ends at 9");
  EXPECT_EQ(ErrorOf({.children = {0, 1}}), "input TOKENS: missing");
}

TEST_F(ForestTest, ParentsThatAreNoTreeAreRefusedWithTheirPlace) {
  EXPECT_EQ(ErrorOfParents({2, 2, -1}), "accepted");
  EXPECT_EQ(ErrorOfParents({2, 2, -2}),
            "input PARENT: the parent of node 2 is -2, nodes are 0 to 2 (-1: the root)");
  EXPECT_EQ(ErrorOfParents({3, 2, -1}),
            "input PARENT: the parent of node 0 is 3, nodes are 0 to 2 (-1: the root)");
  EXPECT_EQ(ErrorOfParents({0, 2, -1}), "input PARENT: node 0 is its own parent");
  EXPECT_EQ(ErrorOfParents({-1, 0, -1}), "input PARENT: nodes 0 and 2 are both roots (parent -1)");
  EXPECT_EQ(ErrorOfParents({1, 2, 0}), "input PARENT: none of 3 nodes is the root (parent -1)");
  EXPECT_EQ(ErrorOfParents({-1, 0, 3, 2, 2}),
            "input PARENT: node 2 does not lead to the root: its parents (the first is 3) run in a "
            "circle");
  EXPECT_EQ(ErrorOf({.tokens = {1, 2}, .parents = {-1}}), "input PARENT: 1 nodes, TOKENS has 2");
  EXPECT_EQ(ErrorOf({.tokens = {1, 2, 3}, .parents = {-1, -1, 0}, .lengths = Ints{1, 2}}),
            "accepted");
  EXPECT_EQ(ErrorOf({.tokens = {1, 2, 3}, .parents = {-1, -1, 1}, .lengths = Ints{1, 2}}),
            "input PARENT: tree 1: node 1 is its own parent");
}

TEST_F(ForestTest, LengthsMustFitTheTrees) {
  const auto with = [&](Ints lengths) {
    return ErrorOf(
        {.tokens = {1, 1, 1, 1}, .children = {0, 1, 0, 1}, .lengths = std::move(lengths)});
  };
  EXPECT_EQ(with({2, 2}), "accepted");
  EXPECT_EQ(with({2, 1}), "input LENGTHS: the lengths add up to 3, TOKENS has 4");
  EXPECT_EQ(with({2, 3}), "input LENGTHS: lengths 0 to 1 add up to 5, TOKENS has 4");
  EXPECT_EQ(with({0, 4}), "input LENGTHS: length 0 is 0, the least is 1");
  EXPECT_EQ(with({5, -1}), "input LENGTHS: lengths 0 to 0 add up to 5, TOKENS has 4");
  EXPECT_EQ(with({-1, 5}), "input LENGTHS: length 0 is -1, the least is 1");
  EXPECT_THAT(with({INT32_MAX, INT32_MAX}), HasSubstr("2147483647"));
  EXPECT_THAT(with({}), HasSubstr("input LENGTHS: shape [0]"));
  const auto text = [&](Ints lengths) {
    return ErrorOf({.text = "(1 (2 a) (2 b)) (3 c)", .lengths = std::move(lengths)});
  };
  EXPECT_EQ(text({2, 1}), "accepted");
  EXPECT_EQ(text({3}), "input LENGTHS: 1 lengths, TREE has 2 trees");
  EXPECT_EQ(text({1, 2}), "input LENGTHS: length 0 is 1, that tree has 2 leaves");
  EXPECT_EQ(ErrorOf({.text = "(1 a) (1 b)"}),
            "input TREE: 2 trees; several in one message come with LENGTHS");
}

TEST_F(ForestTest, InternalTypesAreOneForEachNodeWithChildren) {
  const auto with = [&](Ints types) {
    return ErrorOf({.tokens = {1, 1, 1}, .children = {0, 1, 3, 2}, .types = std::move(types)});
  };
  EXPECT_EQ(with({0, 1}), "accepted");
  EXPECT_EQ(with({0}), "input INTERNAL_TYPES: 1 types, 2 nodes have children");
  EXPECT_EQ(with({0, 1, 0}), "input INTERNAL_TYPES: 3 types, 2 nodes have children");
  EXPECT_EQ(with({0, 2}), "input INTERNAL_TYPES: type 1 is 2, the model's end at 1");
  EXPECT_EQ(with({-1, 0}), "input INTERNAL_TYPES: type 0 is -1, the model's end at 1");
}

// TREE is one text, with its length in front.
TEST_F(ForestTest, ATextInAnotherFrameIsRefused) {
  const auto error = [&](WireType type, TensorDims dims, const std::string& bytes) {
    RequestInput input;
    input.tensors = {
        {kTreeInput, type, std::move(dims),
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())}};
    const absl::StatusOr<Forest> forest = ReadForest(input, Rules(), graph_);
    return forest.ok() ? "accepted" : std::string(forest.status().message());
  };
  const std::string framed("\x03\0\0\0(a)", 7);
  EXPECT_EQ(error(WireType::kBytes, {1}, framed), "accepted");
  EXPECT_EQ(error(WireType::kInt32, {1}, framed),
            "input TREE: INT32 of shape [1], expected BYTES of [1]");
  EXPECT_EQ(error(WireType::kBytes, {2}, framed),
            "input TREE: BYTES of shape [2], expected BYTES of [1]");
  EXPECT_EQ(error(WireType::kBytes, {1}, framed + " "),
            "input TREE: 8 bytes, a text of 3 and its length take 7");
  EXPECT_EQ(error(WireType::kBytes, {1}, framed.substr(0, 6)),
            "input TREE: 6 bytes, a text of 3 and its length take 7");
  EXPECT_EQ(error(WireType::kBytes, {1}, "ab"),
            "input TREE: 2 bytes, a text of 0 and its length take 4");
}

// A word whose number the model does not know is as one that is not there.
TEST_F(ForestTest, WordsOfATextAreNumbersThatTheModelKnows) {
  ForestRules rules = Rules();
  rules.words.size = 2;
  EXPECT_EQ(ErrorOf({.text = "(1 (1 b) (1 c))"}, rules),
            "input TREE: word 1 (\"c\") is not in the vocabulary");
}

TEST_F(ForestTest, OneFormAtATime) {
  EXPECT_EQ(ErrorOf({.tokens = {1}, .text = "(a)"}),
            "input TOKENS: given beside TREE; one of them says it all");
  EXPECT_EQ(ErrorOf({.tokens = {1, 2, 3}, .children = {0, 1, 3, 2}, .parents = {1, -1, 1}}),
            "input CHILDREN: given beside PARENT; one of them says it all");
  ForestRules rules = Rules();
  rules.leaf_tokens = false;
  EXPECT_EQ(ErrorOf({.tokens = {1, 2}, .children = {0, 1}}, rules),
            "input CHILDREN: gives words to leaves only, every node of this model reads one: send "
            "PARENT");
  EXPECT_EQ(ErrorOf({.tokens = {1, 2}, .parents = {1, -1}}, rules), "accepted");
}

TEST_F(ForestTest, NodesAreBounded) {
  ForestRules rules = Rules();
  rules.max_nodes = 5;
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1}, .children = {0, 1, 3, 2}}, rules), "accepted");
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1, 1, 1}, .parents = {-1, 0, 0, 0, 0}}, rules), "accepted");
  EXPECT_EQ(ErrorOf({.text = "(0 (1 a) (2 (1 b) (1 c)))"}, rules), "accepted");
  rules.max_nodes = 4;
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1}, .children = {0, 1, 3, 2}}, rules),
            "input TOKENS: 5 nodes, the model takes 4");
  EXPECT_EQ(ErrorOf({.tokens = {1, 1, 1, 1, 1}, .parents = {-1, 0, 0, 0, 0}}, rules),
            "input PARENT: 5 nodes, the model takes 4");
  EXPECT_EQ(ErrorOf({.text = "(0 (1 a) (2 (1 b) (1 c)))"}, rules),
            "input TREE: byte 18: a node too many, the model takes 4");
}

TEST_F(ForestTest, ChainsOfAHundredThousandTakeNoStack) {
  constexpr int32_t kDeep = 100'000;
  Ints children, parents;
  for (int32_t k = 0; k < kDeep; ++k) {
    children.push_back(k == 0 ? 0 : kDeep + k);
    children.push_back(k + 1);
    parents.push_back(k + 1);
  }
  parents.push_back(-1);
  const auto f = Read({.tokens = Ints(kDeep + 1, 1), .children = std::move(children)});
  ASSERT_TRUE(f.ok()) << f.status();
  EXPECT_EQ(f->all.internals, kDeep);
  const auto g = Read({.tokens = Ints(kDeep + 1, 1), .parents = std::move(parents)});
  ASSERT_TRUE(g.ok()) << g.status();
  EXPECT_EQ(g->all.leaves, 1);
  EXPECT_EQ(g->numbers.back(), kDeep);
}

}  // namespace
}  // namespace cellbatch
