// Claims about learning: what the paper's learner finds and cannot find on graphs with known optima, what saying which
// types lower the bound changes, that a search's word is good, and that a table which fails its proof is not published.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "scheduler/offline/learn/learning_curve.h"
#include "scheduler/offline/learn/machine.h"
#include "scheduler/offline/learn/q_learning.h"
#include "scheduler/offline/learn/table_search.h"
#include "scheduler/offline/learn/table_ties.h"
#include "scheduler/offline/learn/trainer.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/offline/test_graphs.h"

namespace cellbatch {
namespace {

using offline_testing::Chains;
using offline_testing::Lattices;
using offline_testing::LeftComb;
using offline_testing::RandomGraph;
using offline_testing::RoleSwap;
using Kind = StateEncoding::Kind;

constexpr Kind kKinds[] = {Kind::kBase, Kind::kMax, Kind::kSort};

// The fewest over three seeds and both bootstraps.
int32_t BestOfQ(const TypedGraph& graph, const StateEncoding& encoding) {
  const GraphFacts facts(graph);
  int32_t best = graph.size() + 1;
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const bool clipped : {true, false}) {
      QLearningOptions q;
      q.encoding = encoding;
      q.seed = seed;
      q.clipped = clipped;
      best = std::min(best, LearnByQ(facts, LowerBound(graph), q).batches);
    }
  }
  return best;
}

int32_t WithTable(const TypedGraph& graph, const StateEncoding& encoding,
                  const std::vector<FsmTable::Rule>& rules) {
  const ReplayReport report =
      RunClosed(GraphFacts(graph), FsmPolicy(*FsmTable::Create(encoding, rules)));
  EXPECT_EQ(FaultOf(graph, report.schedule), "");
  return report.batches;
}

// algorithms.md 4.1, its columns of the three encodings.
TEST(QLearningTest, FindsWhatThePapersStatesAllowOnTinyGraphs) {
  const struct {
    TypedGraph graph;
    int32_t published;
  } kRows[] = {
      {Chains({"ab", "ba"}), 3},
      {Chains({"abc", "bca", "cab"}), 5},
      {Chains({"abcd", "dcba"}), 7},
      {Chains({"abba", "baab", "aabb"}), 7},
      {Chains({"abcabc", "bacbac"}), 8},
      {Chains({"abacb", "cbbac", "acabb"}), 8},
      {LeftComb(4, true), 7},
      {Lattices({{4, {{0, 2}}}, {4, {{1, 3}}}}), 8},
  };
  for (const auto& row : kRows) {
    for (const Kind kind : kKinds) {
      EXPECT_LE(BestOfQ(row.graph, {.kind = kind, .phases = 1, .lowering = false}), row.published)
          << &row - kRows << " encoding " << static_cast<int>(kind);
    }
  }
}

// Appendix A.4: two networks in series whose types swap roles.
TEST(QLearningTest, RolesThatSwapAreLostOnThePapersStatesAndSolvedByKnowingWhatLowersTheBound) {
  const struct { int32_t k, fewest, published; } kRows[] = {{2, 8, 9}, {3, 10, 12}, {4, 12, 15}};
  for (const auto& row : kRows) {
    for (const Kind kind : kKinds) {
      EXPECT_EQ(BestOfQ(RoleSwap(row.k), {.kind = kind, .phases = 1, .lowering = false}),
                row.published)
          << row.k;
      EXPECT_EQ(BestOfQ(RoleSwap(row.k), {.kind = kind, .phases = 1, .lowering = true}), row.fewest)
          << row.k;
    }
  }
}

TEST(QLearningTest, TheSameSeedLearnsTheSameTable) {
  const TypedGraph graph = Lattices({{9, {{0, 2}, {2, 5}, {3, 6}}}, {7, {{1, 3}, {2, 4}, {3, 6}}}});
  const GraphFacts facts(graph);
  QLearningOptions q;
  q.seed = 7;
  const QLearningResult one = LearnByQ(facts, LowerBound(graph), q);
  const QLearningResult two = LearnByQ(facts, LowerBound(graph), q);
  ASSERT_EQ(one.rules.size(), two.rules.size());
  for (size_t i = 0; i < one.rules.size(); ++i) {
    EXPECT_EQ(one.rules[i].state, two.rules[i].state);
    EXPECT_EQ(one.rules[i].action, two.rules[i].action);
  }
  EXPECT_EQ(one.episodes, two.episodes);
  EXPECT_EQ(WithTable(graph, q.encoding, one.rules), one.batches);
}

TEST(QLearningTest, EndsAsSoonAsTheBoundIsReached) {
  const TypedGraph graph = LeftComb(4, true);
  const QLearningResult learned = LearnByQ(GraphFacts(graph), LowerBound(graph), {});
  EXPECT_EQ(learned.batches, LowerBound(graph));
  EXPECT_LT(learned.episodes, 1000);
  EXPECT_EQ(learned.curve.back().batches, learned.batches);
}

LessonBook RandomLessons(std::mt19937_64& random, int graphs, int32_t nodes) {
  LessonBook book;
  for (int i = 0; i < graphs; ++i) book.Add(RandomGraph(random, nodes, 3));
  return book;
}

TEST(TableSearchTest, ReplayedItsTablesTakeAsManyBatchesAsItSaidAndNeverMoreThanItsFirst) {
  constexpr uint64_t kSeed = 4;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 50; ++round) {
    const LessonBook book = RandomLessons(random, 4, 30);
    const StateEncoding encoding = {.kind = kKinds[round % 3], .phases = 1, .lowering = true};
    const TableSearchResult found = SearchTable(encoding, {}, book.lessons(), 1, 200'000);
    double sum = 0;
    for (const Lesson& lesson : book.lessons()) {
      sum += static_cast<double>(WithTable(lesson.facts->graph, encoding, found.rules)) /
             lesson.bound / static_cast<double>(book.lessons().size());
    }
    EXPECT_NEAR(sum, found.curve.back().batches, 1e-9) << "seed " << kSeed << " round " << round;
    EXPECT_LE(found.curve.back().batches, found.curve.front().batches);
  }
}

// A state has one best action in the lessons and another in the proofs.
TEST(TrainerTest, ATableThatFailsItsProofIsNotPublished) {
  LessonBook lessons, proofs;
  lessons.Add(Chains({"b", "ab"}));  // both ready: a first
  proofs.Add(Chains({"a", "ba"}));   // both ready: b first
  const TrainingResult result = TrainOrder(lessons.lessons(), proofs.lessons(), {});
  bool one_failed = false;
  for (const OrderCandidate& c : result.candidates) {
    one_failed |= c.is_table && c.batches[0] > proofs.lessons()[0].bound;
  }
  EXPECT_TRUE(one_failed) << "the proof is no trap";
  EXPECT_EQ(result.published.batches, std::vector<int32_t>{2});
}

TEST(TrainerTest, WhatIsPublishedIsNeverWorseThanAnyRuleOfThumbAndSometimesIsOne) {
  constexpr uint64_t kSeed = 9;
  std::mt19937_64 random(kSeed);
  int tables = 0, rules = 0;
  for (int round = 0; round < 30; ++round) {
    const LessonBook lessons = RandomLessons(random, 1, 14), proofs = RandomLessons(random, 8, 80);
    const TrainingResult result =
        TrainOrder(lessons.lessons(), proofs.lessons(),
                   {.seed = 1, .most_nodes = 500'000, .progress = nullptr});
    (result.table_is_best ? tables : rules) += 1;
    EXPECT_EQ(result.table_is_best, result.published.is_table);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_FALSE(result.candidates[i].is_table);
      EXPECT_LE(result.published.over_bound, result.candidates[i].over_bound + 1e-9)
          << "seed " << kSeed << " round " << round << " against " << result.candidates[i].name;
    }
    for (size_t p = 0; p < proofs.lessons().size() && result.table_is_best; ++p) {
      EXPECT_EQ(WithTable(proofs.lessons()[p].facts->graph, result.published.encoding,
                          result.published.rules),
                result.published.batches[p]);
    }
  }
  EXPECT_GT(tables, 0);
  EXPECT_GT(rules, 0) << "no proof was ever failed: nothing is shown";
}

// Of a and b, both ready, either order of chains "ab" and "ba" takes three batches, so the first type goes first; of "b" and
// "ab" a has to.
TEST(TableTiesTest, AChoiceThatGainsNothingIsTheFirstTypesAndOneThatGainsStays) {
  const StateEncoding encoding = {.kind = Kind::kBase, .phases = 1, .lowering = false};
  const StateKey both = *MakeState(encoding, {CellTypeId(0), CellTypeId(1)}, 0);
  const auto settled = [&](std::vector<std::string_view> words, int64_t action) {
    LessonBook lessons;
    lessons.Add(Chains(words));
    const SettledTable table =
        SettleTies(encoding, {{both, CellTypeId(action)}}, lessons.lessons());
    EXPECT_EQ(table.rules.size(), 1u);
    EXPECT_GT(table.nodes, 0);
    return table.rules[0].action;
  };
  EXPECT_EQ(settled({"ab", "ba"}, 1), CellTypeId(0));
  EXPECT_EQ(settled({"ab", "ba"}, 0), CellTypeId(0));
  EXPECT_EQ(settled({"a", "ba"}, 1), CellTypeId(1)) << "a first would take a batch more";
  EXPECT_EQ(settled({"b", "ab"}, 1), CellTypeId(0)) << "b first takes a batch more";
}

// Appendix A.4 again: what is learned from short networks in series holds for longer ones.
TEST(TrainerTest, RolesThatSwapAreSolvedAtLengthsThatWereNotLearnedFrom) {
  LessonBook lessons, proofs;
  for (const int32_t k : {2, 3, 4}) lessons.Add(RoleSwap(k));
  for (const int32_t k : {5, 7, 12}) proofs.Add(RoleSwap(k));
  const TrainingResult result = TrainOrder(lessons.lessons(), proofs.lessons(), {});
  EXPECT_TRUE(result.table_is_best);
  EXPECT_TRUE(result.published.encoding.lowering);
  EXPECT_EQ(result.published.batches, result.proof_bounds);
}

TEST(TrainerTest, TheSameSeedPublishesTheSame) {
  std::mt19937_64 random(2);
  const LessonBook lessons = RandomLessons(random, 2, 40), proofs = RandomLessons(random, 2, 40);
  const TrainingOptions options = {.seed = 3, .most_nodes = 500'000, .progress = nullptr};
  const TrainingResult one = TrainOrder(lessons.lessons(), proofs.lessons(), options);
  const TrainingResult two = TrainOrder(lessons.lessons(), proofs.lessons(), options);
  EXPECT_EQ(one.published.name, two.published.name);
  EXPECT_EQ(one.nodes, two.nodes);
  ASSERT_EQ(one.candidates.size(), two.candidates.size());
  for (size_t i = 0; i < one.candidates.size(); ++i) {
    EXPECT_EQ(one.candidates[i].batches, two.candidates[i].batches);
  }
}

// What a table does on a chain of two types, by hand.
TEST(MachineTest, StatesAndMovesAreThoseOfTheReplay) {
  LessonBook book;
  book.Add(Chains({"aab"}));
  const StateEncoding encoding = {.kind = Kind::kSort, .phases = 1, .lowering = true};
  const StateKey a = *MakeState(encoding, {{CellTypeId(0)}}, 0, {{CellTypeId(0)}});
  const absl::StatusOr<FsmTable> table = FsmTable::Create(encoding, {{a, CellTypeId(0)}});
  ASSERT_TRUE(table.ok());
  const Machine machine = TraceMachine(*table, book.lessons());
  ASSERT_EQ(machine.states.size(), 2u);
  EXPECT_EQ(machine.states[0].batches, 2);
  EXPECT_TRUE(machine.states[0].learned);
  EXPECT_FALSE(machine.states[1].learned) << "b alone is not in the table";
  using Move = std::pair<size_t, size_t>;
  EXPECT_EQ(machine.moves,
            (std::map<Move, int64_t>{{Move(0, 0), 1}, {Move(0, 1), 1}, {Move(1, 2), 1}}));
  const std::vector<std::string> names = {"leaf", "inner"};
  EXPECT_EQ(MachineAsDot(machine, names),
            "digraph order {\n"
            "  node [shape=box, fontname=\"sans-serif\"];\n"
            "  s0 [label=\"leaf*\\nrun leaf\\n2 batches\"];\n"
            "  s1 [label=\"inner*\\nrun inner (LB-greedy)\\n1 batches\", style=dashed];\n"
            "  s2 [label=\"done\", shape=doublecircle];\n"
            "  s0 -> s0 [label=\"1\"];\n"
            "  s0 -> s1 [label=\"1\"];\n"
            "  s1 -> s2 [label=\"1\"];\n"
            "}\n");
}

TEST(LearningCurveTest, HasALineForEveryTableAndOneMoreForThePublished) {
  LessonBook lessons, proofs;
  lessons.Add(Lattices({{9, {{0, 2}, {2, 5}, {3, 6}}}, {7, {{1, 3}, {2, 4}, {3, 6}}}}));
  proofs.Add(Lattices({{8, {{1, 3}, {2, 5}}}, {6, {{0, 3}, {2, 4}}}}));
  const TrainingResult result = TrainOrder(lessons.lessons(), proofs.lessons(), {});
  ASSERT_TRUE(result.table_is_best);
  const std::string svg = LearningCurveSvg(result, "a < b");
  size_t lines = 0;
  for (size_t at = 0; (at = svg.find("<polyline", at)) != svg.npos; ++at) ++lines;
  EXPECT_EQ(lines, result.candidates.size() - 3 + 1);
  EXPECT_NE(svg.find("a &lt; b"), svg.npos);
  EXPECT_EQ(svg.find("nan"), svg.npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
}

TEST(LessonsTest, RequestsAreDealtOutOnceEachInThreeSizes) {
  std::vector<TypedGraph> requests(300, Chains({"ab"}));
  const LessonBooks books = DealOut(requests);
  EXPECT_EQ(books.requests, 104u);
  const auto sizes = [](const LessonBook& book) {
    std::vector<int32_t> nodes;
    for (const Lesson& lesson : book.lessons()) nodes.push_back(lesson.facts->graph.size());
    return nodes;
  };
  EXPECT_EQ(sizes(books.learn), (std::vector<int32_t>{16, 64, 128}));
  EXPECT_EQ(sizes(books.prove), (std::vector<int32_t>{16, 64, 128}));
  EXPECT_EQ(books.learn.nodes(), 208);
  requests.resize(3, Chains({"ab"}));
  EXPECT_EQ(sizes(DealOut(requests).learn), std::vector<int32_t>{2});
}

}  // namespace
}  // namespace cellbatch
