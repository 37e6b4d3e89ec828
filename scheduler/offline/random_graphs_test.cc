// A thousand random small graphs: every policy's schedule is valid and lies where it must, and what a replay keeps up is
// what counting anew finds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "scheduler/offline/exact.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/offline/test_graphs.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/cellular_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/random_policy.h"
#include "scheduler/policy/sufficient_policy.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 12;
constexpr int kGraphs = 1000;

struct Totals {
  int64_t bound = 0, fewest = 0, depth = 0, agenda = 0, agenda_dyn = 0, sufficient = 0,
          sufficient_best = 0, lb_greedy = 0, random = 0;
};

class RandomGraphsTest : public ::testing::Test {
 protected:
  int32_t Forwards(const Policy& policy) { return Judged(RunClosed(*facts_, policy)); }
  int32_t Backwards(const Policy& policy) { return Judged(RunClosedBackwards(*graph_, policy)); }

  void Next(int round) {
    round_ = round;
    graph_ = std::make_unique<TypedGraph>(offline_testing::RandomGraph(random_, 14, 3));
    facts_ = std::make_unique<GraphFacts>(*graph_);
    fewest_ = FewestBatches(*graph_);
  }

  std::mt19937_64 random_{kSeed};
  std::unique_ptr<TypedGraph> graph_;
  std::unique_ptr<GraphFacts> facts_;
  int32_t fewest_ = 0;
  int round_ = 0;

 private:
  int32_t Judged(const ReplayReport& report) const {
    EXPECT_EQ(FaultOf(*graph_, report.schedule), "") << "seed " << kSeed << " round " << round_;
    EXPECT_GE(report.batches, fewest_) << "seed " << kSeed << " round " << round_;
    return report.batches;
  }
};

TEST_F(RandomGraphsTest, PoliciesLieAboveTheOptimumAndAreOrderedAsPublished) {
  Totals sum;
  for (int round = 0; round < kGraphs; ++round) {
    Next(round);
    EXPECT_LE(LowerBound(*graph_), fewest_) << "seed " << kSeed << " round " << round;
    EXPECT_EQ(LowerBound(graph_->Reversed()), LowerBound(*graph_));
    EXPECT_EQ(FewestBatches(graph_->Reversed()), fewest_) << "seed " << kSeed << " round " << round;
    sum.bound += LowerBound(*graph_);
    sum.fewest += fewest_;
    sum.depth += Forwards(DepthPolicy());
    sum.agenda += Forwards(AgendaPolicy(AgendaMean::kWholeGraph));
    sum.agenda_dyn += Forwards(AgendaPolicy(AgendaMean::kRemaining));
    const int32_t sufficient = Forwards(SufficientPolicy());
    sum.sufficient += sufficient;
    sum.sufficient_best += std::min(sufficient, Backwards(SufficientPolicy()));
    sum.lb_greedy += Forwards(LbGreedyPolicy());
    sum.random += Forwards(RandomPolicy(1));
    Forwards(CellularPolicy());
  }
  // algorithms.md 4.1: the ordering of its totals, not its numbers.
  EXPECT_LT(sum.bound, sum.fewest);
  EXPECT_LT(sum.fewest, sum.lb_greedy);
  EXPECT_LT(sum.lb_greedy, sum.sufficient);
  EXPECT_LT(sum.sufficient_best, sum.sufficient);
  EXPECT_LT(sum.sufficient, sum.agenda_dyn);
  EXPECT_LT(sum.agenda_dyn, sum.agenda);
  EXPECT_LT(sum.agenda, sum.depth);
  EXPECT_LT(sum.sufficient, sum.random);
}

// Nodes that follow, directly or not, on a node of `type` among `left`.
std::vector<bool> Behind(const TypedGraph& graph, int32_t type, const std::vector<bool>& left) {
  std::vector<bool> behind(left.size(), false);
  for (int32_t v = 0; v < graph.size(); ++v) {
    for (const int32_t p : graph.predecessors(v)) {
      const auto at = static_cast<size_t>(p);
      if (behind[at] || (left[at] && graph.type(p) == type)) behind[static_cast<size_t>(v)] = true;
    }
  }
  return behind;
}

// The most nodes of `type` on a path from v, path by path.
int32_t HeightOf(const TypedGraph& graph, int32_t v, int32_t type) {
  int32_t most = 0;
  for (int32_t w = v + 1; w < graph.size(); ++w) {
    const auto before = graph.predecessors(w);
    if (std::find(before.begin(), before.end(), v) == before.end()) continue;
    most = std::max(most, HeightOf(graph, w, type));
  }
  return most + (graph.type(v) == type ? 1 : 0);
}

int32_t DepthOf(const TypedGraph& graph, int32_t v) {
  int32_t depth = 0;
  for (const int32_t p : graph.predecessors(v)) depth = std::max(depth, 1 + DepthOf(graph, p));
  return depth;
}

// What a policy should see of `type`, from the graph and what is left of it alone.
TypeView CountAnew(const TypedGraph& graph, int32_t type, const std::vector<bool>& left) {
  TypeView view;
  view.type = CellTypeId(type);
  TypeNodes& nodes = view.nodes;
  const std::vector<bool> behind = Behind(graph, type, left);
  for (int32_t v = 0; v < graph.size(); ++v) {
    if (graph.type(v) != type) continue;
    const int32_t depth = DepthOf(graph, v), height = HeightOf(graph, v, type);
    ++nodes.total;
    nodes.total_depths += depth;
    if (!left[static_cast<size_t>(v)]) continue;
    const auto before = graph.predecessors(v);
    const bool ready = std::none_of(before.begin(), before.end(),
                                    [&](int32_t p) { return left[static_cast<size_t>(p)]; });
    ++nodes.remaining;
    nodes.remaining_depths += depth;
    if (!behind[static_cast<size_t>(v)]) ++nodes.heads;
    if (height > nodes.tallest) nodes.tops = nodes.ready_tops = 0;
    nodes.tallest = std::max(nodes.tallest, height);
    if (height == nodes.tallest) ++nodes.tops, nodes.ready_tops += ready ? 1 : 0;
    if (!ready) continue;
    ++view.ready;
    nodes.ready_depths += depth;
    if (nodes.least_depth < 0 || depth < nodes.least_depth) {
      nodes.least_depth = depth;
      nodes.at_least_depth = 0;
    }
    if (depth == nodes.least_depth) ++nodes.at_least_depth;
  }
  return view;
}

void ExpectSame(const TypeView& seen, const TypeView& right, const std::string& where) {
  const TypeNodes &a = seen.nodes, &b = right.nodes;
  EXPECT_EQ(seen.ready, right.ready) << where;
  EXPECT_EQ(a.remaining, b.remaining) << where;
  EXPECT_EQ(a.remaining_depths, b.remaining_depths) << where;
  EXPECT_EQ(a.total, b.total) << where;
  EXPECT_EQ(a.total_depths, b.total_depths) << where;
  EXPECT_EQ(a.ready_depths, b.ready_depths) << where;
  EXPECT_EQ(a.least_depth, b.least_depth) << where;
  EXPECT_EQ(a.at_least_depth, b.at_least_depth) << where;
  EXPECT_EQ(a.tallest, b.tallest) << where;
  EXPECT_EQ(a.tops, b.tops) << where;
  EXPECT_EQ(a.ready_tops, b.ready_tops) << where;
  EXPECT_EQ(a.heads, b.heads) << where;
}

// Twice over the same replay: Reset forgets everything.
TEST_F(RandomGraphsTest, WhatAReplayKeepsUpIsWhatCountingAnewFinds) {
  for (int round = 0; round < 60; ++round) {
    Next(round);
    Replay replay(*facts_);
    for (int turn = 0; turn < 2; ++turn, replay.Reset()) {
      std::vector<bool> left(static_cast<size_t>(graph_->size()), true);
      while (!replay.done()) {
        for (int32_t t = 0; t < graph_->num_types(); ++t) {
          ExpectSame(replay.frontier()[static_cast<size_t>(t)], CountAnew(*graph_, t, left),
                     fmt::format("seed {} round {} turn {} batch {} type {}", kSeed, round, turn,
                                 replay.batches(), t));
        }
        const bool by_depth = random_() % 2 == 0;
        const Choice choice = *(by_depth ? DepthPolicy().Choose(replay.frontier())
                                         : RandomPolicy(random_()).Choose(replay.frontier()));
        for (const int32_t v : replay.Execute(choice)) left[static_cast<size_t>(v)] = false;
      }
    }
  }
}

// Lemma of appendix A.2, and what LB-greedy stands on.
TEST_F(RandomGraphsTest, ABatchOfASufficientTypeLowersTheBoundByOne) {
  for (int round = 0; round < 60; ++round) {
    Next(round);
    Replay replay(*facts_);
    int32_t bound = LowerBound(*graph_), non_reducing = 0;
    while (!replay.done()) {
      const Choice choice = *RandomPolicy(random_()).Choose(replay.frontier());
      const TypeView view = replay.frontier()[static_cast<size_t>(choice.type.value())];
      const bool lowers = view.nodes.ready_tops == view.nodes.tops;
      EXPECT_TRUE(lowers || view.ready < view.nodes.heads) << "round " << round;
      replay.Execute(choice);
      int32_t left = 0;
      for (const TypeView& v : replay.frontier()) left += v.nodes.tallest;
      EXPECT_EQ(left, bound - (lowers ? 1 : 0)) << "seed " << kSeed << " round " << round;
      bound = left;
      non_reducing += lowers ? 0 : 1;
    }
    EXPECT_EQ(replay.batches(), LowerBound(*graph_) + non_reducing);
  }
}

}  // namespace
}  // namespace cellbatch
