// Claims about the depths that policies are told, with and without phases and ghost nodes; on random graphs against
// definitions written down path by path.
#include "cells/cell_graph_depths.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "cells/cell_graph_test_model.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;

using Depths = std::vector<int32_t>;

constexpr int32_t kWordsGiven[8] = {1, 2, 3, 4, 5, 6, 7, 8};

SubgraphId AddTokens(CellGraph& g, int32_t rows) {
  return g.AddInput(kTokens, rows, reinterpret_cast<const std::byte*>(kWordsGiven));
}

// A node that reads the last of `from`, and perhaps that of `other`.
SubgraphId AddTree(CellGraph& g, SubgraphId from, SubgraphId other = kZeroSource) {
  return g.Add(kTree, 1,
               {{.from = from, .input = kX, .first = kLastNode},
                {.from = other, .input = kPrev, .first = kLastNode}});
}

Model ModelWith(UnfoldOptions options) {
  Model model = TestModel();
  model.unfold = options;
  return model;
}

// Sealed under `options`.
Depths Told(CellGraph& g, const Model& model) {
  EXPECT_TRUE(g.Seal(model, 2).ok());
  return ToldDepths(g, model);
}

// A chain, a head on each of its nodes, and two more chains' worth behind another sentence.
TEST(ToldDepthsTest, BehindSentencesOfAnyLengthTheNextPhaseBeginsAtOneDepth) {
  const auto unfold = [](int32_t words, int32_t phases) {
    const Model model = ModelWith({.phases = phases});
    CellGraph g;
    const SubgraphId in = AddTokens(g, words);
    const SubgraphId chain = g.Add(kChain, words, {{.from = in, .input = kX, .stride = 1}});
    g.SetPhase(1);
    const SubgraphId decoder = AddTree(g, chain);
    AddTree(g, decoder);
    return Told(g, model);
  };
  EXPECT_EQ(unfold(3, 1), (Depths{0, 0, 3, 4}));
  EXPECT_EQ(unfold(7, 1), (Depths{0, 0, 7, 8}));
  EXPECT_EQ(unfold(3, 2), (Depths{0, 0, 2048, 2049}));
  EXPECT_EQ(unfold(7, 2), (Depths{0, 0, 2048, 2049}));
}

TEST(ToldDepthsTest, WhoReadsALaterPhaseIsOfThatPhase) {
  const Model model = ModelWith({.phases = 2});
  CellGraph g;
  g.SetPhase(1);
  const SubgraphId late = AddTree(g, kZeroSource);
  g.SetPhase(0);
  AddTree(g, late);
  AddTree(g, kZeroSource);
  EXPECT_EQ(Told(g, model), (Depths{2048, 2049, 0}));
}

TEST(ToldDepthsTest, DeeperThanAPhaseHasRoomForIsItsLastDepth) {
  EXPECT_EQ(PhaseStride(2), 2048);
  EXPECT_EQ(PhaseStride(3), 1024);
  EXPECT_EQ(PhaseStride(kMostPhases), 256);
  EXPECT_EQ(ToldDepth(2, 300, kMostPhases), 2 * 256 + 255);
  EXPECT_EQ(ToldDepth(0, 1'000'000, 1), 1'000'000);
  EXPECT_LT(ToldDepth(kMostPhases - 1, 1'000'000, kMostPhases), kToldDepths);
}

//             +-- b - c - d --+
//         a --+               +-- f -- g
//             +------ e ------+
//                       h ----+
TEST(ToldDepthsTest, AShorterArmEndsWhereTheLongerOneDoesAndWhatBeginsNowhereStays) {
  for (const bool ghosts : {false, true}) {
    const Model model = ModelWith({.ghosts = ghosts});
    CellGraph graph;
    const SubgraphId a = AddTree(graph, kZeroSource);
    const SubgraphId b = AddTree(graph, a);
    const SubgraphId c = AddTree(graph, b);
    const SubgraphId d = AddTree(graph, c);
    const SubgraphId e = AddTree(graph, a);
    const SubgraphId h = AddTree(graph, kZeroSource);
    const SubgraphId arms = AddTree(graph, d, e);
    const SubgraphId f = AddTree(graph, arms, h);
    AddTree(graph, f);
    AddTree(graph, a);  // that nobody reads: it has no end to meet at
    EXPECT_EQ(Told(graph, model), (Depths{0, 1, 2, 3, ghosts ? 3 : 1, 0, 4, 5, 6, 1}));
  }
}

TEST(ToldDepthsTest, AnArmThatIsAChainIsMovedWhole) {
  const Model model = ModelWith({.ghosts = true});
  CellGraph g;
  const SubgraphId in = AddTokens(g, 8);
  const SubgraphId a = AddTree(g, kZeroSource);
  const auto arm = [&](int32_t length) {
    return g.Add(kChain, length,
                 {{.from = in, .input = kX, .stride = 1}, {.from = a, .input = kPrev}});
  };
  const SubgraphId longer = arm(6), shorter = arm(2);
  AddTree(g, longer, shorter);
  EXPECT_EQ(Told(g, model), (Depths{0, 0, 1, 5, 7}));
}

TEST(ToldDepthsTest, ArmsOfDifferentPhasesDoNotMeet) {
  const Model model = ModelWith({.phases = 2, .ghosts = true});
  CellGraph g;
  const SubgraphId a = AddTree(g, kZeroSource);
  const SubgraphId b = AddTree(g, a);
  const SubgraphId c = AddTree(g, AddTree(g, b));
  g.SetPhase(1);
  AddTree(g, c, b);
  EXPECT_EQ(Told(g, model), (Depths{0, 1, 2, 3, 2048}));
}

TEST(ToldDepthsTest, APlaceIsToldOnlyWithGhosts) {
  for (const bool ghosts : {false, true}) {
    const Model model = ModelWith({.ghosts = ghosts});
    CellGraph g;
    g.SetPlace(AddTree(g, kZeroSource), 5);
    EXPECT_EQ(Told(g, model), (Depths{ghosts ? 5 : 0}));
  }
}

TEST(ToldDepthsTest, OfALaterPieceWhatItReadsOfEarlierOnesLiesBeforeIt) {
  const Model model = ModelWith({.phases = 2, .ghosts = true});
  CellGraph g;
  g.Grow({.pieces = 1, .nodes = 4, .rows = {0, 4}, .progress = nullptr});
  const SubgraphId first = AddTree(g, AddTree(g, kZeroSource));
  ASSERT_TRUE(g.Seal(model, 2).ok());
  AddTree(g, AddTree(g, first));
  ASSERT_TRUE(g.Seal(model, 2).ok());
  EXPECT_EQ(ToldDepths(g, model), (Depths{2, 3}));
}

// Nodes of one, so that subgraphs are nodes, in random phases.
void AddRandomNodes(std::mt19937& random, CellGraph& g) {
  std::vector<SubgraphId> made;
  for (uint32_t n = 2 + random() % 10; n > 0; --n) {
    const auto any = [&] {
      return made.empty() || random() % 5 == 0 ? kZeroSource : made[random() % made.size()];
    };
    g.SetPhase(static_cast<int32_t>(random() % 2));
    made.push_back(AddTree(g, any(), any()));
  }
}

// As the header says it, by walking every path.
class Definition {
 public:
  explicit Definition(const CellGraph& g) : g_(g) {}

  int32_t Phase(int32_t v) const { return g_.subgraphs()[static_cast<size_t>(v)].phase; }
  int32_t Path(int32_t v) const {
    int32_t most = 0;
    for (const int32_t p : Reads(v)) most = std::max(most, Path(p) + 1);
    return most;
  }
  // The longest path to an end of the phase, ghosts filling what is missing to the latest of what it meets.
  int32_t Raised(int32_t v) const {
    const std::vector<int32_t> readers = Readers(v);
    if (Reads(v).empty() || readers.empty()) return Path(v);
    int32_t least = Raised(readers[0]) - 1;
    for (const int32_t r : readers) least = std::min(least, Raised(r) - 1);
    return least;
  }
  std::vector<int32_t> Reads(int32_t v) const {
    std::vector<int32_t> found;
    const Subgraph& s = g_.subgraphs()[static_cast<size_t>(v)];
    for (const Link& l :
         g_.links().subspan(static_cast<size_t>(s.first_link), static_cast<size_t>(s.num_links))) {
      if (l.from != kZeroSource && Phase(static_cast<int32_t>(l.from.value())) == Phase(v)) {
        found.push_back(static_cast<int32_t>(l.from.value()));
      }
    }
    return found;
  }
  std::vector<int32_t> Readers(int32_t v) const {
    std::vector<int32_t> found;
    for (int32_t r = v + 1; r < static_cast<int32_t>(g_.subgraphs().size()); ++r) {
      const std::vector<int32_t> reads = Reads(r);
      if (std::find(reads.begin(), reads.end(), v) != reads.end()) found.push_back(r);
    }
    return found;
  }

 private:
  const CellGraph& g_;
};

TEST(ToldDepthsTest, AgreesWithTheDefinitionOnRandomGraphs) {
  constexpr uint32_t kSeed = 12;
  std::mt19937 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    const bool ghosts = round % 2 == 1;
    const Model model = ModelWith({.phases = 2, .ghosts = ghosts});
    CellGraph g;
    AddRandomNodes(random, g);
    const Depths told = Told(g, model);
    const Definition definition(g);
    for (int32_t v = 0; v < static_cast<int32_t>(told.size()); ++v) {
      const int32_t depth = ghosts ? definition.Raised(v) : definition.Path(v);
      EXPECT_EQ(told[static_cast<size_t>(v)], ToldDepth(definition.Phase(v), depth, 2))
          << "seed " << kSeed << " round " << round << " node " << v;
    }
  }
}

TEST(ToldDepthsTest, WhereNothingIsSaidWhatIsToldIsTheDepthThatSealFound) {
  constexpr uint32_t kSeed = 13;
  std::mt19937 random(kSeed);
  const Model model = TestModel();
  for (int round = 0; round < 200; ++round) {
    CellGraph g;
    AddRandomNodes(random, g);
    const Depths told = Told(g, model);
    for (size_t v = 0; v < told.size(); ++v) {
      EXPECT_EQ(told[v], g.piece()[v].depth) << "seed " << kSeed << " round " << round;
    }
  }
}

}  // namespace
}  // namespace cellbatch
