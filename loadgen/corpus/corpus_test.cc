#include "loadgen/corpus/corpus.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "loadgen/corpus/parse.h"

namespace cellbatch::corpus {
namespace {

using Children = std::vector<std::array<int32_t, 2>>;

absl::StatusOr<Corpus> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "/corpus_test.txt";
  std::ofstream(path) << text;
  auto corpus = ReadCorpus(path);
  std::remove(path.c_str());
  return corpus;
}

TEST(BracketsTest, ATreesLeavesComeFirstAndChildrenBeforeTheirParents) {
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed("(3 (2 (2 It) (1 's)) (4 (2 a) (2 (2 lovely) (2 film))))", tree));
  EXPECT_EQ(tree.words, (Words{"It", "'s", "a", "lovely", "film"}));
  EXPECT_EQ(tree.children, (Children{{0, 1}, {3, 4}, {2, 6}, {5, 7}}));
}

TEST(BracketsTest, OneWordIsATree) {
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed("(2 Good)", tree));
  EXPECT_EQ(tree.words, Words{"Good"});
  EXPECT_TRUE(tree.children.empty());
}

TEST(BracketsTest, WhatIsNoTreeIsRefused) {
  for (const char* text : {"", "(", ")", "(2 a", "(2 a b)", "(2 (2 a))", "(2 (2 a) b)",
                           "(2 (2 a) (2 b) (2 c))", "(2 a) (2 b)", "a", "(2 )"}) {
    BinaryTree tree;
    EXPECT_FALSE(ParseBracketed(text, tree)) << text;
  }
}

TEST(BracketsTest, ATreeMayBeAsDeepAsItsText) {
  constexpr int32_t kDepth = 100'000;
  std::string text;
  for (int32_t i = 0; i < kDepth; ++i) {
    text += "(2 (2 a) ";
  }
  text += "(2 z)" + std::string(kDepth, ')');
  BinaryTree tree;
  ASSERT_TRUE(ParseBracketed(text, tree));
  EXPECT_EQ(tree.words.size(), kDepth + 1u);
  EXPECT_EQ(tree.children.front(), (std::array<int32_t, 2>{kDepth - 1, kDepth}));
  EXPECT_EQ(tree.children.back(), (std::array<int32_t, 2>{0, 2 * kDepth - 1}));
}

TEST(ParseTest, HeadsThatMakeNoTreeAreRefused) {
  DependencyTree tree;
  ASSERT_TRUE(ParseHeads("3\tit is good\t3 3 0", tree));
  EXPECT_EQ(tree.parent, (std::vector<int32_t>{2, 2, -1}));
  for (const char* heads :
       {"3 3 3", "2 1 0", "0 0 1", "3 3", "4 3 0", "-1 3 0", "x 3 0", "-2147483648 3 0"}) {
    DependencyTree wrong;
    EXPECT_FALSE(ParseHeads(std::string("3\tit is good\t") + heads, wrong)) << heads;
  }
}

TEST(ParseTest, LengthsArePositive) {
  Lengths lengths;
  EXPECT_TRUE(ParseLengths("1\t1", lengths));
  for (const char* text : {"0", "0\t1", "1\t0", "-1", "1\t1\t1", ""}) {
    EXPECT_FALSE(ParseLengths(text, lengths)) << text;
  }
}

TEST(ParseTest, LatticesThatTheServerWouldRefuseAreRefused) {
  Lattice lattice;
  ASSERT_TRUE(ParseLattice(R"({"n":3,"char_ids":[5,6,7],"words":[[0,2],[1,3]],"word_ids":[8,9]})",
                           lattice));
  EXPECT_EQ(lattice.words.back(), (std::array<int32_t, 3>{1, 3, 9}));
  for (const char* text : {
           R"({"char_ids":[5,6,7],"words":[[0,4]],"word_ids":[8]})",
           R"({"char_ids":[5,6,7],"words":[[-1,2]],"word_ids":[8]})",
           R"({"char_ids":[5,6,7],"words":[[2,2]],"word_ids":[8]})",
           R"({"char_ids":[5,6,7],"words":[[0,2]],"word_ids":[]})",
           R"({"char_ids":[5,"a"],"words":[],"word_ids":[]})",
           R"({"char_ids":[],"words":[],"word_ids":[]})",
           R"({"char_ids":[-1],"words":[],"word_ids":[]})",
           R"({"char_ids":[5],"words":[7],"word_ids":[1]})",
           R"({"char_ids":[5],"words":{},"word_ids":[]})",
           R"({"char_ids":[4294967301],"words":[],"word_ids":[]})",
           R"([1])",
           R"({)",
       }) {
    Lattice wrong;
    EXPECT_FALSE(ParseLattice(text, wrong)) << text;
  }
}

TEST(CorpusTest, TheFirstLineSaysWhatAFileHolds) {
  const std::pair<const char*, const char*> files[] = {
      {"23\n7\n", "lengths"},
      {"23\t27\n", "lengths"},
      {"token|O Bonn|I-LOC\n", "sentences"},
      {"a plain sentence\n", "sentences"},
      {"ein Satz\ta sentence\n", "sentence pairs"},
      {"(3 (2 good) (2 film))\n", "binary trees"},
      {"3\tit is good\t3 3 0\n", "dependency trees"},
      {"{\"char_ids\":[1],\"words\":[],\"word_ids\":[]}\n", "lattices"},
      {"\n{\"inputs\":[]}\r\n\n", "requests"}};
  for (const auto& [text, kind] : files) {
    const auto corpus = Read(text);
    ASSERT_TRUE(corpus.ok()) << text << corpus.status();
    EXPECT_STREQ(corpus->kind(), kind) << text;
    EXPECT_EQ(corpus->source, "corpus_test.txt");
  }
  EXPECT_EQ(std::get<std::vector<Words>>(Read("Bonn|I-LOC a|b|O\n")->items)[0],
            (Words{"Bonn", "a|b"}))
      << "the last bar divides";
}

TEST(CorpusTest, ALineOfAnotherKindIsNamed) {
  const auto corpus = Read("(3 (2 good) (2 film))\n\n(3 good film)\n");
  EXPECT_EQ(corpus.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(corpus.status().ToString().find("line 3 is no line of binary trees"), std::string::npos)
      << corpus.status();
  EXPECT_EQ(Read("\n \n").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadCorpus("/nowhere/at/all").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cellbatch::corpus
