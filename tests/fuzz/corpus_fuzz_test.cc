// Lines of the load generator's files, damaged or not: trees are those that a recursive reading finds, heads those from each of
// which every way leads to one root, lattices those whose words lie inside.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "loadgen/corpus/parse.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch::corpus {
namespace {

// "((a b) c)": without labels and spaces that mean nothing. Empty: it is no tree.
class SlowBrackets {
 public:
  static std::string Read(const std::string& line) {
    SlowBrackets reading(line);
    std::string tree = reading.Node();
    reading.Spaces();
    return reading.good_ && reading.at_ == line.size() ? tree : "";
  }

 private:
  explicit SlowBrackets(const std::string& line) : line_(line) {}
  char Next() const { return at_ < line_.size() ? line_[at_] : '\0'; }
  bool AtEnd() const { return at_ >= line_.size(); }
  void Spaces() {
    while (Next() == ' ') ++at_;
  }
  std::string Text() {
    std::string text;
    while (!AtEnd() && Next() != ' ' && Next() != '(' && Next() != ')') text += line_[at_++];
    return text;
  }
  void Expect(char c) {
    Spaces();
    good_ = good_ && Next() == c;
    ++at_;
  }
  std::string Node() {
    Expect('(');
    if (!good_) return "";
    Text();  // the label
    Spaces();
    if (Next() == '(') {
      const std::string left = Node();
      if (!good_) return "";
      const std::string right = Node();
      Expect(')');
      return "(" + left + " " + right + ")";
    }
    const std::string word = Text();
    good_ = good_ && !word.empty();
    Expect(')');
    return word;
  }

  const std::string& line_;
  size_t at_ = 0;
  bool good_ = true;
};

std::string Shown(const BinaryTree& tree, int32_t node) {
  const auto leaves = static_cast<int32_t>(tree.words.size());
  if (node < leaves) return tree.words[static_cast<size_t>(node)];
  const auto& children = tree.children[static_cast<size_t>(node - leaves)];
  return "(" + Shown(tree, children[0]) + " " + Shown(tree, children[1]) + ")";
}

std::string RandomBrackets(Mutator& mutator, int leaves) {
  const std::string space = std::string(mutator.Below(3), ' ');
  const std::string label = std::to_string(mutator.Below(5));
  if (leaves == 1) return "(" + label + " " + space + "w" + std::to_string(mutator.Below(9)) + ")";
  const int left = 1 + static_cast<int>(mutator.Below(static_cast<uint64_t>(leaves - 1)));
  return "(" + label + " " + RandomBrackets(mutator, left) + space +
         RandomBrackets(mutator, leaves - left) + space + ")";
}

TEST(CorpusFuzzTest, ABracketedTreeIsWhatARecursiveReadingFinds) {
  const uint64_t seed = 20261204;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"(", ")", " ", "()", "(2 a)", "((", "))", "(2 (2 a) (2 b))", "\t", "é"});
  int64_t accepted = 0;
  FuzzBudget budget(10'000, 1.0 / 3);
  while (budget.Next()) {
    std::string line = RandomBrackets(mutator, 1 + static_cast<int>(mutator.Below(8)));
    const bool damaged = mutator.Below(3) != 0;
    if (damaged) line = mutator.Mutate(line);
    SCOPED_TRACE(line);
    BinaryTree tree;
    const bool good = ParseBracketed(line, tree);
    const std::string expected = SlowBrackets::Read(line);
    ASSERT_EQ(good, !expected.empty());
    ASSERT_TRUE(good || damaged);
    if (!good) continue;
    ++accepted;
    ASSERT_EQ(tree.words.size(), tree.children.size() + 1);
    const auto root = static_cast<int32_t>(tree.words.size() + tree.children.size()) - 1;
    ASSERT_EQ(Shown(tree, root), expected);
  }
  EXPECT_GT(accepted, budget.cases() / 4);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

// Every way leads to the one root.
bool IsTreeSlowly(const std::vector<int32_t>& parent) {
  const auto nodes = static_cast<int32_t>(parent.size());
  int roots = 0;
  for (int32_t node = 0; node < nodes; ++node) {
    int32_t at = node, steps = 0;
    for (; at >= 0 && at < nodes && steps <= nodes; ++steps) at = parent[static_cast<size_t>(at)];
    if (at != -1) return false;
    roots += parent[static_cast<size_t>(node)] == -1 ? 1 : 0;
  }
  return roots == 1;
}

TEST(CorpusFuzzTest, HeadsAreThoseOfATree) {
  const uint64_t seed = 20261205;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"\t", " ", "0", "-1", "-2147483648", "2147483648", "1", "2", "x", "\t\t"});
  int64_t accepted = 0;
  FuzzBudget budget(10'000, 1.0 / 3);
  while (budget.Next()) {
    const uint64_t nodes = 1 + mutator.Below(7);
    std::vector<std::string> words;
    std::vector<uint64_t> heads;
    std::vector<int32_t> parent;
    for (uint64_t i = 0; i < nodes; ++i) {
      words.push_back("w" + std::to_string(mutator.Below(9)));
      heads.push_back(mutator.Below(nodes + 1));
      parent.push_back(static_cast<int32_t>(heads.back()) - 1);
    }
    std::string line =
        fmt::format("{}\t{}\t{}", nodes, fmt::join(words, " "), fmt::join(heads, " "));
    const bool damaged = mutator.Below(2) == 0;
    if (damaged) line = mutator.Mutate(line);
    SCOPED_TRACE(line);
    DependencyTree tree;
    const bool good = ParseHeads(line, tree);
    if (!damaged) {
      ASSERT_EQ(good, IsTreeSlowly(parent));
    }
    if (!good) continue;
    ++accepted;
    ASSERT_EQ(tree.words.size(), tree.parent.size());
    ASSERT_TRUE(IsTreeSlowly(tree.parent));
    // Its numbers, read apart from it.
    std::istringstream list(line.substr(line.find('\t', line.find('\t') + 1)));
    std::vector<int32_t> again;
    for (int32_t head = 0; list >> head;) again.push_back(head - 1);
    ASSERT_EQ(tree.parent, again);
  }
  EXPECT_GT(accepted, budget.cases() / 50);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

TEST(CorpusFuzzTest, ALatticesWordsLieInside) {
  const uint64_t seed = 20261206;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"[", "]", "{", "}", ",", "-1", "4294967301", "1e3", "0.5", "null", "[0,1]",
                         "\"words\"", "\"char_ids\"", "\"word_ids\":[1]", std::string(300, '[')});
  int64_t accepted = 0;
  FuzzBudget budget(5000, 1.0 / 3);
  while (budget.Next()) {
    Lattice meant;
    std::vector<std::string> spans;
    std::vector<int32_t> ids;
    const auto characters = static_cast<int32_t>(1 + mutator.Below(6));
    for (int32_t c = 0; c < characters; ++c) {
      meant.characters.push_back(static_cast<int32_t>(mutator.Below(9)));
    }
    for (uint64_t w = 0, n = mutator.Below(4); w < n; ++w) {
      const auto from = static_cast<int32_t>(mutator.Below(static_cast<uint64_t>(characters)));
      const auto more = static_cast<uint64_t>(characters - from);
      const int32_t to = from + 1 + static_cast<int32_t>(mutator.Below(more));
      ids.push_back(static_cast<int32_t>(mutator.Below(99)));
      spans.push_back(fmt::format("[{},{}]", from, to));
      meant.words.push_back({from, to, ids.back()});
    }
    std::string line =
        fmt::format(R"({{"n":{},"char_ids":[{}],"words":[{}],"word_ids":[{}]}})", characters,
                    fmt::join(meant.characters, ","), fmt::join(spans, ","), fmt::join(ids, ","));
    const bool damaged = mutator.Below(3) != 0;
    if (damaged) line = mutator.Mutate(line);
    SCOPED_TRACE(line);
    Lattice read;
    const bool good = ParseLattice(line, read);
    ASSERT_TRUE(good || damaged);
    if (!good) continue;
    ++accepted;
    ASSERT_FALSE(read.characters.empty());
    for (const int32_t id : read.characters) ASSERT_GE(id, 0);
    for (const auto& [from, to, id] : read.words) {
      ASSERT_TRUE(0 <= from && from < to && to <= std::ssize(read.characters) && id >= 0);
    }
    if (damaged) continue;
    ASSERT_EQ(read.characters, meant.characters);
    ASSERT_EQ(read.words, meant.words);
  }
  EXPECT_GT(accepted, budget.cases() / 4);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch::corpus
