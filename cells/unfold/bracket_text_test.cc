#include "cells/unfold/bracket_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cellbatch {
namespace {

using testing::ElementsAre;

constexpr int64_t kMaxNodes = 1 << 20;

BracketTrees Parse(std::string_view text) {
  absl::StatusOr<BracketTrees> trees = ParseBracketText(text, kMaxNodes);
  EXPECT_TRUE(trees.ok()) << trees.status();
  return trees.ok() ? *std::move(trees) : BracketTrees();
}

std::string ErrorOf(std::string_view text, int64_t max_nodes = kMaxNodes) {
  const absl::StatusOr<BracketTrees> trees = ParseBracketText(text, max_nodes);
  if (trees.ok()) return "accepted";
  EXPECT_EQ(trees.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(trees.status().message());
}

TEST(BracketTextTest, ATreebankLineIsLeavesInTheirOrderThenNodesAsTheyClose) {
  const BracketTrees t = Parse("(2 (3 (3 Effective) (2 but)) (1 (1 too-tepid) (2 biopic)))\n");
  ASSERT_EQ(t.trees.size(), 1u);
  EXPECT_EQ(t.trees[0].leaves, 4);
  EXPECT_EQ(t.trees[0].internals, 3);
  EXPECT_THAT(t.words, ElementsAre("Effective", "but", "too-tepid", "biopic"));
  EXPECT_THAT(t.children, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(t.child_ends, ElementsAre(2, 4, 6));
}

TEST(BracketTextTest, LabelsAreOptionalAndNodesHaveAnyNumberOfChildren) {
  const BracketTrees t = Parse("((a)(-1 b)\t((0.25 c))(d)\r\n)");
  EXPECT_THAT(t.words, ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(t.children, ElementsAre(2, 0, 1, 4, 3));
  EXPECT_THAT(t.child_ends, ElementsAre(1, 5));
  EXPECT_THAT(Parse("(+1\ta\r)").words, ElementsAre("a"));
}

TEST(BracketTextTest, SeveralTreesNumberTheirNodesEachFromZero) {
  const BracketTrees t = Parse("(0 (1 a) (2 b)) (3 c)\n(0 (0 (1 d) (2 e)) (f))");
  ASSERT_EQ(t.trees.size(), 3u);
  EXPECT_EQ(t.trees[1].leaves, 1);
  EXPECT_EQ(t.trees[1].internals, 0);
  EXPECT_EQ(t.trees[2].leaves, 3);
  EXPECT_THAT(t.words, ElementsAre("a", "b", "c", "d", "e", "f"));
  EXPECT_THAT(t.children, ElementsAre(0, 1, 0, 1, 3, 2));
}

TEST(BracketTextTest, WordsAreBytes) {
  const std::string text("(4 (2 na\xc3\xafve) (2 \xe6\xbc\xa2\xe5\xad\x97))");
  EXPECT_THAT(Parse(text).words, ElementsAre("na\xc3\xafve", "\xe6\xbc\xa2\xe5\xad\x97"));
  EXPECT_THAT(Parse("(2 \\/)").words, ElementsAre("\\/"));
  EXPECT_THAT(Parse("(2 -LRB-)").words, ElementsAre("-LRB-"));
  EXPECT_THAT(Parse(std::string_view("(2 a\0b)", 7)).words,
              ElementsAre(std::string_view("a\0b", 3)));
  EXPECT_THAT(Parse("(2 \xff\xfe)").words, ElementsAre("\xff\xfe")) << "no UTF-8, and no matter";
}

TEST(BracketTextTest, WhatIsNoTreeIsRefusedByItsByte) {
  EXPECT_EQ(ErrorOf(""), "the text has no tree");
  EXPECT_EQ(ErrorOf(" \n\t"), "the text has no tree");
  EXPECT_EQ(ErrorOf("()"), "byte 0: an empty pair of brackets");
  EXPECT_EQ(ErrorOf("(2 (3 a) ())"), "byte 9: an empty pair of brackets");
  EXPECT_EQ(ErrorOf("(2 (3 a) (3 b)"),
            "byte 14: the text ends with 1 brackets open, the last of them at byte 0");
  EXPECT_EQ(ErrorOf("((("),
            "byte 3: the text ends with 3 brackets open, the last of them at byte 2");
  EXPECT_EQ(ErrorOf("(2 a))"), "byte 5: a closing bracket, and none is open");
  EXPECT_EQ(ErrorOf(")"), "byte 0: a closing bracket, and none is open");
  EXPECT_EQ(ErrorOf("word"), "byte 0: \"word\" stands outside of brackets");
  EXPECT_EQ(ErrorOf("(2 a) b"), "byte 6: \"b\" stands outside of brackets");
  EXPECT_EQ(ErrorOf("(1 the old dog)"),
            "byte 7: \"old\" is one word too many for the leaf at byte 0");
  EXPECT_EQ(ErrorOf("(1 (2 the) dog)"),
            "byte 11: \"dog\" stands behind a tree; a leaf has brackets of its own, (word)");
  EXPECT_EQ(ErrorOf("(1 old (2 dog))"),
            "byte 0: \"1\" and \"old\" stand beside a tree; at most a label does");
  EXPECT_EQ(ErrorOf("\x01\n(a)"), "byte 0: \"\\001\" stands outside of brackets");
  EXPECT_EQ(ErrorOf(std::string(100, 'x')),
            "byte 0: \"" + std::string(40, 'x') + "...\" stands outside of brackets");
}

// Three leaves in one reading, one in the other.
TEST(BracketTextTest, WhatCanBeReadInTwoWaysIsRefusedAndSaysHowItIsWritten) {
  const std::string written =
      ": a label is a number, (3 (2 a) (1 b)), and a word has brackets of its own, ((a) (b))";
  EXPECT_EQ(ErrorOf("(a (b c))"), "byte 0: \"a\" stands in front of a tree" + written);
  EXPECT_EQ(ErrorOf("((a b) (c d))"), "byte 1: \"a\" stands in front of \"b\"" + written);
  EXPECT_EQ(ErrorOf("(3 (2 a) (b c))"), "byte 9: \"b\" stands in front of \"c\"" + written);
  EXPECT_EQ(ErrorOf("(NP (DT the) (NN dog))"),
            "byte 0: \"NP\" stands in front of a tree" + written);
  for (const char* no_number : {"-", ".", "1.2.3", "1e5", "2a", "+-1"}) {
    EXPECT_EQ(ErrorOf("(" + std::string(no_number) + " a)"),
              "byte 0: \"" + std::string(no_number) + "\" stands in front of \"a\"" + written);
  }
  EXPECT_THAT(Parse("((a) ((b) (c)))").words, ElementsAre("a", "b", "c"));
  EXPECT_THAT(Parse("(2 (1 3) (4))").words, ElementsAre("3", "4")) << "numbers are words, too";
}

TEST(BracketTextTest, NodesAreBoundedWhateverTheTextSays) {
  EXPECT_EQ(ErrorOf("(0 (1 a) (2 b))", 3), "accepted");
  EXPECT_EQ(ErrorOf("(0 (1 a) (2 b))", 2), "byte 9: a node too many, the model takes 2");
  EXPECT_EQ(ErrorOf("(0 a) (0 b)", 1), "byte 6: a node too many, the model takes 1");
  EXPECT_EQ(ErrorOf(std::string(1 << 20, '('), 1000),
            "byte 1000: a node too many, the model takes 1000");
}

TEST(BracketTextTest, AMegabyteOfNestingTakesNoStack) {
  constexpr size_t kDeep = 1 << 20;
  const std::string open(kDeep, '(');
  EXPECT_EQ(ErrorOf(open),
            "byte 1048576: the text ends with 1048576 brackets open, the last of them at byte "
            "1048575");
  const BracketTrees chain = Parse(open.substr(1) + "(w)" + std::string(kDeep - 1, ')'));
  EXPECT_EQ(chain.trees[0].leaves, 1);
  EXPECT_EQ(chain.trees[0].internals, static_cast<int32_t>(kDeep) - 1);
  EXPECT_EQ(chain.children.back(), static_cast<int32_t>(kDeep) - 2);
}

}  // namespace
}  // namespace cellbatch
