// Claims about shapes of requests: lines say what they say, anything else is refused with a reason, and made-up ones are
// lines that could have been.
#include "server/learn/request_shape.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/learn/built_in_shapes.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Pair = std::array<int32_t, 2>;

RequestShape Parsed(ShapeKind kind, std::string_view line) {
  const absl::StatusOr<RequestShape> shape = ParseShape(kind, line);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return shape.ok() ? *shape : RequestShape();
}

std::string Refused(ShapeKind kind, std::string_view line) {
  const absl::StatusOr<RequestShape> shape = ParseShape(kind, line);
  return shape.ok() ? "taken" : std::string(shape.status().message());
}

TEST(ParseShapeTest, LinesOfTheDataFoldersFilesAreShapes) {
  EXPECT_EQ(Parsed(ShapeKind::kSequence, "23\t25").length, 23);
  const RequestShape spelled = Parsed(ShapeKind::kSpelled, "3 0 7 0");
  EXPECT_EQ(spelled.length, 3);
  EXPECT_THAT(spelled.spelled, ElementsAre(0, 7, 0));
  EXPECT_TRUE(Parsed(ShapeKind::kSpelled, "3").spelled.empty());
  const RequestShape pair = Parsed(ShapeKind::kTranslation, "18\t22");
  EXPECT_EQ(pair.length, 18);
  EXPECT_EQ(pair.target, 22);
  const RequestShape tree = Parsed(ShapeKind::kTree, "(3 (2 It) (4 (2 's) (2 .)))");
  EXPECT_EQ(tree.length, 3);
  EXPECT_THAT(tree.children, ElementsAre(Pair{1, 2}, Pair{0, 3}));
  EXPECT_EQ(Parsed(ShapeKind::kTree, "(2 word)").length, 1);
  EXPECT_THAT(Parsed(ShapeKind::kHeads, "3\tBush nominated Jennifer\t2 0 2").parents,
              ElementsAre(1, -1, 1));
  const RequestShape lattice =
      Parsed(ShapeKind::kLattice, R"({"n":5,"char_ids":[1],"words":[[0,2],[2,5]],"word_ids":[7]})");
  EXPECT_EQ(lattice.length, 5);
  EXPECT_THAT(lattice.spans, ElementsAre(Pair{0, 2}, Pair{2, 5}));
}

TEST(ParseShapeTest, GraphsAndTensorsAreJson) {
  const RequestShape graph =
      Parsed(ShapeKind::kGraph, R"({"types":[0,0,1,2],"edges":[[0,2,0],[1,2,1],[2,3,0]]})");
  EXPECT_EQ(graph.length, 4);
  EXPECT_THAT(graph.node_types, ElementsAre(0, 0, 1, 2));
  using Edge = std::array<int32_t, 3>;
  EXPECT_THAT(graph.edges, ElementsAre(Edge{0, 2, 0}, Edge{1, 2, 1}, Edge{2, 3, 0}));
  EXPECT_TRUE(Parsed(ShapeKind::kGraph, R"({"types":[3]})").edges.empty());

  const RequestShape request =
      Parsed(ShapeKind::kTensors, R"({"A":[4,-1,7],"B":[[1,0],[2,2]],"C":{"dims":[3,64]}})");
  ASSERT_EQ(request.tensors.size(), 3u);
  EXPECT_EQ(request.tensors[0].name, "A");
  EXPECT_THAT(request.tensors[0].dims, ElementsAre(3));
  EXPECT_THAT(request.tensors[0].numbers, ElementsAre(4, -1, 7));
  EXPECT_THAT(request.tensors[1].dims, ElementsAre(2, 2));
  EXPECT_THAT(request.tensors[1].numbers, ElementsAre(1, 0, 2, 2));
  EXPECT_THAT(request.tensors[2].dims, ElementsAre(3, 64));
  EXPECT_TRUE(request.tensors[2].numbers.empty());
}

TEST(ParseShapeTest, AnythingElseIsRefusedWithAReason) {
  EXPECT_THAT(Refused(ShapeKind::kGraph, R"({"types":[]})"), HasSubstr("no nodes"));
  EXPECT_THAT(Refused(ShapeKind::kGraph, R"({"types":[-1]})"), HasSubstr("no number"));
  EXPECT_THAT(Refused(ShapeKind::kGraph, R"({"types":[0,1],"edges":[[0,1]]})"),
              HasSubstr("[from, to, input]"));
  EXPECT_THAT(Refused(ShapeKind::kGraph, R"({"types":[0,1],"edges":[[1,0,0]]})"),
              HasSubstr("a node to one after it"));
  EXPECT_THAT(Refused(ShapeKind::kGraph, R"({"types":[0,1],"edges":[[0,2,0]]})"),
              HasSubstr("a node to one after it"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, "{}"), HasSubstr("it takes"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, R"({"A":7})"), HasSubstr("A is neither"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, R"({"A":[[1],[2,3]]})"), HasSubstr("A is neither"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, R"({"A":[1,[2]]})"), HasSubstr("A is neither"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, R"({"A":[18446744073709551615]})"),
              HasSubstr("A is neither"));
  EXPECT_THAT(Refused(ShapeKind::kTensors, R"({"A":{"dims":[1048576,1048576]}})"),
              HasSubstr("A is neither"));
  EXPECT_THAT(Refused(ShapeKind::kSequence, "words"), HasSubstr("\"words\" is no sequence"));
  EXPECT_THAT(Refused(ShapeKind::kSequence, "0"), HasSubstr("no words"));
  EXPECT_THAT(Refused(ShapeKind::kSequence, "-4"), HasSubstr("numbers"));
  EXPECT_EQ(Refused(ShapeKind::kSequence, "1048576"), "taken");
  EXPECT_THAT(Refused(ShapeKind::kSequence, "1048577"), HasSubstr("it takes numbers"));
  EXPECT_EQ(Refused(ShapeKind::kSequence, "12\r"), "taken") << "a file of another system";
  EXPECT_EQ(Refused(ShapeKind::kSequence, std::string(100, 'w')),
            "\"" + std::string(60, 'w') + "\" is no sequence: it takes numbers, words first");
  EXPECT_THAT(Refused(ShapeKind::kSpelled, "3 0 7"), HasSubstr("one a word"));
  EXPECT_THAT(Refused(ShapeKind::kTranslation, "18"), HasSubstr("two numbers"));
  EXPECT_THAT(Refused(ShapeKind::kTree, "(3 (2 It)"), HasSubstr("brackets open"));
  EXPECT_THAT(Refused(ShapeKind::kTree, "(3 (2 It))"), HasSubstr("two children"));
  EXPECT_THAT(Refused(ShapeKind::kTree, "(2 a) (2 b)"), HasSubstr("more than one"));
  EXPECT_THAT(Refused(ShapeKind::kTree, "2 a)"), HasSubstr("outside of brackets"));
  EXPECT_THAT(Refused(ShapeKind::kTree, ")"), HasSubstr("none is open"));
  EXPECT_THAT(Refused(ShapeKind::kHeads, "3\tab\t1 9"), HasSubstr("beyond its words"));
  EXPECT_THAT(Refused(ShapeKind::kLattice, "[1]"), HasSubstr("\"n\""));
  EXPECT_THAT(Refused(ShapeKind::kLattice, R"({"n":5,"words":[[3,9]]})"), HasSubstr("outside"));
  EXPECT_THAT(Refused(ShapeKind::kLattice, R"({"n":5,"words":[7]})"), HasSubstr("[start, end]"));
}

TEST(ParseShapeTest, ATreeAsDeepAsAChainIsNoRecursion) {
  std::string line;
  constexpr int kDeep = 100'000;
  for (int i = 0; i < kDeep; ++i) line += "(0 (0 a) ";
  line += "(0 b)";
  line.append(kDeep, ')');
  EXPECT_EQ(Parsed(ShapeKind::kTree, line).children.size(), static_cast<size_t>(kDeep));
}

// Every child once, before its parent; the last inner node is the root.
void ExpectTree(const RequestShape& shape) {
  ASSERT_EQ(shape.children.size() + 1, static_cast<size_t>(shape.length));
  std::vector<int> used(static_cast<size_t>(shape.length) + shape.children.size(), 0);
  for (size_t k = 0; k < shape.children.size(); ++k) {
    for (const int32_t child : shape.children[k]) {
      ASSERT_LT(child, shape.length + static_cast<int32_t>(k));
      ++used[static_cast<size_t>(child)];
    }
  }
  used.back() = 1;
  EXPECT_EQ(std::count(used.begin(), used.end(), 1), static_cast<std::ptrdiff_t>(used.size()));
}

TEST(BuiltInShapesTest, MadeUpShapesAreSoundAndOfTheStatedSizes) {
  constexpr uint64_t kSeed = 6;
  std::mt19937_64 random(kSeed);
  double words = 0, leaves = 0, characters = 0;
  constexpr int kShapes = 500;
  for (int i = 0; i < kShapes; ++i) {
    words += RandomShape(ShapeKind::kSequence, {}, random).length;
    const RequestShape tree = RandomShape(ShapeKind::kTree, {}, random);
    leaves += tree.length;
    ExpectTree(tree);
    const RequestShape lattice = RandomShape(ShapeKind::kLattice, {}, random);
    characters += lattice.length;
    for (const auto& [from, to] : lattice.spans) {
      EXPECT_LT(from, to);
      EXPECT_GE(from, 0);
      EXPECT_LE(to, lattice.length);
    }
    EXPECT_EQ(std::set<Pair>(lattice.spans.begin(), lattice.spans.end()).size(),
              lattice.spans.size())
        << "no word is there twice";
    const RequestShape spelled = RandomShape(ShapeKind::kSpelled, {}, random);
    EXPECT_EQ(spelled.spelled.size(), static_cast<size_t>(spelled.length));
    EXPECT_GE(RandomShape(ShapeKind::kTranslation, {}, random).target, 1);
    const RequestShape heads = RandomShape(ShapeKind::kHeads, {}, random);
    EXPECT_EQ(std::count(heads.parents.begin(), heads.parents.end(), -1), 1);
  }
  EXPECT_NEAR(words / kShapes, 24, 3) << "seed " << kSeed;
  EXPECT_NEAR(leaves / kShapes, 19, 2) << "seed " << kSeed;
  EXPECT_NEAR(characters / kShapes, 48, 6) << "seed " << kSeed;
}

TEST(BuiltInShapesTest, MadeUpShapesKeepTheirBounds) {
  constexpr uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(RandomShape(ShapeKind::kSequence, {.length = 9}, random).length, 9);
    const RequestShape heads = RandomShape(ShapeKind::kHeads, {.children = 2}, random);
    for (int32_t word = 0; word < heads.length; ++word) {
      EXPECT_LE(std::count(heads.parents.begin(), heads.parents.end(), word), 2) << kSeed;
    }
  }
}

// Leaves of what the request brings, nodes over two of them or of themselves, an output over any number.
RequestDescription Described() {
  RequestDescription described;
  described.output_type = 2;
  described.node_types = {
      {"leaf", {{"leaf.x", /*brought=*/true, /*sums=*/false, {}}}},
      {"node", {{"node.left", false, false, {0, 1}}, {"node.right", false, false, {0, 1}}}},
      {"out", {{"out.h", false, /*sums=*/true, {1}}}}};
  return described;
}

TEST(BuiltInShapesTest, MadeUpGraphsReadWhatTheirTypesMayReadAndEndInAnOutput) {
  constexpr uint64_t kSeed = 9;
  std::mt19937_64 random(kSeed);
  const RequestDescription described = Described();
  double nodes = 0;
  constexpr int kShapes = 300;
  for (int i = 0; i < kShapes; ++i) {
    const RequestShape shape = RandomGraphShape(described, {}, random);
    ASSERT_EQ(shape.node_types.size(), static_cast<size_t>(shape.length));
    EXPECT_EQ(shape.node_types.back(), 2);
    nodes += shape.length;
    std::vector<Pair> filled;
    for (const auto& [from, to, input] : shape.edges) {
      ASSERT_LT(from, to);
      const auto& ports =
          described.node_types[static_cast<size_t>(shape.node_types[static_cast<size_t>(to)])]
              .inputs;
      ASSERT_LT(static_cast<size_t>(input), ports.size());
      EXPECT_THAT(ports[static_cast<size_t>(input)].reads,
                  ::testing::Contains(shape.node_types[static_cast<size_t>(from)]));
      const Pair port = {to, input};
      EXPECT_TRUE(ports[static_cast<size_t>(input)].sums ||
                  std::count(filled.begin(), filled.end(), port) == 0);
      filled.push_back(port);
    }
  }
  EXPECT_NEAR(nodes / kShapes, 19, 3) << "seed " << kSeed;
}

}  // namespace
}  // namespace cellbatch
