// Graphs as the replay has them: by hand, from requests as the server unfolds them; and the judge of schedules.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cells/cell_graph_depths.h"
#include "cells/cell_graph_test_model.h"
#include "scheduler/offline/graph_facts.h"
#include "scheduler/offline/schedule_check.h"
#include "scheduler/offline/test_graphs.h"
#include "scheduler/offline/unfolded_graph.h"

namespace cellbatch {
namespace {

using namespace cell_graph_testing;
using ::testing::Test;

std::vector<int32_t> ToVector(absl::Span<const int32_t> span) { return {span.begin(), span.end()}; }

std::vector<std::vector<int32_t>> Predecessors(const TypedGraph& graph) {
  std::vector<std::vector<int32_t>> all;
  for (int32_t v = 0; v < graph.size(); ++v) all.push_back(ToVector(graph.predecessors(v)));
  return all;
}

TEST(UnfoldedGraphTest, ChainsAndSetsBecomeNodesThatWaitForNodes) {
  const Model model = TestModel();
  CellGraph g;
  const int32_t tokens[3] = {1, 2, 3};
  const SubgraphId in = g.AddInput(kTokens, 3, reinterpret_cast<const std::byte*>(tokens));
  const SubgraphId chain = g.Add(kChain, 3, {{.from = in, .input = kX, .stride = 1}});
  const SubgraphId back =
      g.Add(kStack, 3, {{.from = chain, .input = kX, .first = 2, .stride = -1}});
  g.Add(kHead, 3, {{.from = chain, .input = kX, .stride = 1}});
  g.Add(
      kChain, 2,
      {{.from = in, .input = kX, .stride = 1}, {.from = back, .input = kPrev, .first = kLastNode}});
  ASSERT_TRUE(g.Seal(model, 2).ok());
  TypedGraph graph(static_cast<int32_t>(model.types.size()));
  graph.Add(kTree.value(), {});  // somebody is there already
  AppendUnfolded(g, model, graph);
  const int32_t c = kChain.value(), s = kStack.value(), h = kHead.value();
  EXPECT_EQ(ToVector(graph.types()),
            (std::vector<int32_t>{kTree.value(), c, c, c, s, s, s, h, h, h, c, c}));
  //   tree {} | chain 1, 2, 3 | stack 4, 5, 6, read from the end | heads 7, 8, 9 | chain 10, 11 behind the stack
  EXPECT_EQ(Predecessors(graph),
            (std::vector<std::vector<int32_t>>{
                {}, {}, {1}, {2}, {3}, {4, 2}, {5, 1}, {1}, {2}, {3}, {6}, {10}}));
}

// Node by node and subgraph by subgraph, where each is one: with every choice of what is told.
TEST(UnfoldedGraphTest, WhatIsToldOfDepthsIsWhatALaneIsTold) {
  constexpr uint32_t kSeed = 23;
  std::mt19937 random(kSeed);
  Model model = TestModel();
  for (int round = 0; round < 300; ++round) {
    model.unfold.phases = 1 + round % 3;
    model.unfold.ghosts = round % 2 == 1;
    CellGraph g;
    std::vector<SubgraphId> made;
    for (uint32_t n = 2 + random() % 12; n > 0; --n) {
      const auto any = [&] {
        return made.empty() || random() % 4 == 0 ? kZeroSource : made[random() % made.size()];
      };
      g.SetPhase(static_cast<int32_t>(random() % 3));
      made.push_back(
          g.Add(kTree, 1, {{.from = any(), .input = kX}, {.from = any(), .input = kPrev}}));
      if (random() % 5 == 0) g.SetPlace(made.back(), static_cast<int32_t>(random() % 9));
    }
    ASSERT_TRUE(g.Seal(model, 2).ok());
    TypedGraph graph(static_cast<int32_t>(model.types.size()));
    graph.Add(kTree.value(), {});  // somebody is there already
    AppendUnfolded(g, model, graph);
    const GraphFacts facts(graph);
    EXPECT_EQ(std::vector<int32_t>(facts.depth.begin() + 1, facts.depth.end()),
              ToldDepths(g, model))
        << "seed " << kSeed << " round " << round;
  }
}

// A chain, a head on each of its nodes, behind it a place of its own.
TEST(UnfoldedGraphTest, NodesOfAChainArePlacedOneBehindTheOther) {
  Model model = TestModel();
  model.unfold = {.phases = 2, .ghosts = true};
  CellGraph g;
  const int32_t tokens[3] = {1, 2, 3};
  const SubgraphId in = g.AddInput(kTokens, 3, reinterpret_cast<const std::byte*>(tokens));
  const SubgraphId chain = g.Add(kChain, 3, {{.from = in, .input = kX, .stride = 1}});
  g.SetPlace(chain, 7);
  g.SetPhase(1);
  g.Add(kHead, 3, {{.from = chain, .input = kX, .stride = 1}});
  ASSERT_TRUE(g.Seal(model, 2).ok());
  TypedGraph graph(static_cast<int32_t>(model.types.size()));
  AppendUnfolded(g, model, graph);
  TypedGraph two = graph;
  two.Append(graph);
  EXPECT_EQ(GraphFacts(two).depth,
            (std::vector<int32_t>{7, 8, 9, 2048, 2048, 2048, 7, 8, 9, 2048, 2048, 2048}));
}

TEST(TypedGraphTest, GraphsSideBySideKeepTheirArrows) {
  TypedGraph both = offline_testing::Chains({"ab"});
  both.Append(offline_testing::Chains({"ba"}));
  EXPECT_EQ(ToVector(both.types()), (std::vector<int32_t>{0, 1, 1, 0}));
  EXPECT_EQ(Predecessors(both), (std::vector<std::vector<int32_t>>{{}, {0}, {}, {2}}));
}

TEST(TypedGraphTest, TurnedRoundTwiceIsTheSame) {
  const TypedGraph graph = offline_testing::LeftComb(3, true);
  const TypedGraph twice = graph.Reversed().Reversed();
  EXPECT_EQ(ToVector(twice.types()), ToVector(graph.types()));
  for (int32_t v = 0; v < graph.size(); ++v) {
    std::vector<int32_t> a = ToVector(graph.predecessors(v)), b = ToVector(twice.predecessors(v));
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    EXPECT_EQ(a, b) << v;
  }
}

// a --> b --> a --> a, and an arrow over the middle one that it implies.
TEST(GraphFactsTest, ATypesOwnGraphPassesThroughOthersAndKeepsNoIdleArrow) {
  TypedGraph graph(2);
  const int32_t first = graph.Add(0, {});
  const int32_t other = graph.Add(1, {first});
  const int32_t second = graph.Add(0, {other});
  const int32_t third = graph.Add(0, {second, other});
  const GraphFacts facts(graph);
  EXPECT_EQ(ToVector(facts.heirs[first]), std::vector<int32_t>{second});
  EXPECT_EQ(ToVector(facts.heirs[second]), std::vector<int32_t>{third});
  EXPECT_EQ(facts.elders, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(facts.height, (std::vector<int32_t>{3, 1, 2, 1}));
  EXPECT_EQ(facts.depth, (std::vector<int32_t>{0, 1, 2, 3}));
}

TEST(ScheduleCheckTest, NamesEveryKindOfFault) {
  const TypedGraph graph = offline_testing::Chains({"ab", "ba"});
  EXPECT_EQ(FaultOf(graph, {{0}, {1, 2}, {3}}), "");
  EXPECT_EQ(FaultOf(graph, {{0}, {}, {1, 2}, {3}}), "batch 1 is empty");
  EXPECT_EQ(FaultOf(graph, {{0, 4}}), "batch 0: there is no node 4");
  EXPECT_EQ(FaultOf(graph, {{0}, {1, 2}, {3}, {0}}), "node 0 is in batches 0 and 3");
  EXPECT_EQ(FaultOf(graph, {{0, 2}}), "batch 0 has nodes of types 0 and 1");
  EXPECT_EQ(FaultOf(graph, {{0}, {1, 2}}), "node 3 is in no batch");
  EXPECT_EQ(FaultOf(graph, {{2}, {0, 3}, {1}}), "");
  EXPECT_EQ(FaultOf(graph, {{1, 2}, {0, 3}}),
            "node 1 of batch 0 reads node 0, which is not in an earlier one");
  EXPECT_EQ(FaultOf(offline_testing::Chains({"aa"}), {{0, 1}}),
            "node 1 of batch 0 reads node 0, which is not in an earlier one");
}

}  // namespace
}  // namespace cellbatch
