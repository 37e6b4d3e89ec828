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

// What `change` is made to, learned with often enough looks to tell two learners apart.
std::vector<int32_t> CurveOf(const TypedGraph& graph, void (*change)(QLearningOptions&)) {
  QLearningOptions q;
  q.episodes = 300;
  q.evaluate_every = 5;
  q.near_enough = 0;  // to the last episode
  change(q);
  std::vector<int32_t> curve;
  for (const LearningPoint& point : LearnByQ(GraphFacts(graph), LowerBound(graph), q).curve) {
    curve.push_back(point.batches);
  }
  return curve;
}

TEST(QLearningTest, EveryConstantAndTheSeedSayHowItLearns) {
  std::mt19937_64 random(5);
  const TypedGraph graph = RandomGraph(random, 120, 4);
  const std::vector<int32_t> curve = CurveOf(graph, [](auto&) {});
  EXPECT_EQ(curve.size(), 60u);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.seed = 2; }), curve);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.clipped = false; }), curve);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.alpha = 0; }), curve);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.steps = 1; }), curve);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.exploration_falls_by = 1; }), curve);
  EXPECT_NE(CurveOf(graph, [](auto& q) { q.learning_rate = 0.1; }), curve);
}

TEST(QLearningTest, TheBestTableThatWasSeenIsKeptAndNotTheLast) {
  std::mt19937_64 random(6);
  int lost = 0;  // tables that were better than the last
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const TypedGraph graph = RandomGraph(random, 60, 3);
    QLearningOptions q;
    q.seed = seed;
    q.evaluate_every = 20;
    const QLearningResult learned = LearnByQ(GraphFacts(graph), LowerBound(graph), q);
    int32_t fewest = learned.curve[0].batches;
    for (const LearningPoint& point : learned.curve) fewest = std::min(fewest, point.batches);
    EXPECT_EQ(learned.batches, fewest) << "seed " << seed;
    EXPECT_EQ(WithTable(graph, q.encoding, learned.rules), fewest) << "seed " << seed;
    lost += learned.curve.back().batches > fewest ? 1 : 0;
  }
  EXPECT_GT(lost, 0) << "the last was always the best: nothing is shown";
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

// Batches in parts of the bounds, the mean over the lessons.
double OverBound(const LessonBook& book, const StateEncoding& encoding,
                 const std::vector<FsmTable::Rule>& rules) {
  double sum = 0;
  for (const Lesson& lesson : book.lessons()) {
    sum += static_cast<double>(WithTable(lesson.facts->graph, encoding, rules)) / lesson.bound;
  }
  return sum / static_cast<double>(book.lessons().size());
}

TEST(TableSearchTest, ItHasRulesOfTheStatesThatTheLessonsComeToAndBeginsWithThoseItIsGiven) {
  constexpr uint64_t kSeed = 14;
  std::mt19937_64 random(kSeed);
  int bettered = 0;
  for (int round = 0; round < 20; ++round) {
    const LessonBook book = RandomLessons(random, 3, 30);
    const StateEncoding encoding = {.kind = kKinds[round % 3], .phases = 1, .lowering = true};
    const TableSearchResult found = SearchTable(encoding, {}, book.lessons(), 1, 200'000);
    const Machine machine = TraceMachine(*FsmTable::Create(encoding, found.rules), book.lessons());
    EXPECT_EQ(machine.states.size(), found.rules.size()) << "seed " << kSeed << " round " << round;
    for (const MachineState& state : machine.states) EXPECT_TRUE(state.learned);
    const TableSearchResult again =
        SearchTable(encoding, found.rules, book.lessons(), 1, /*most_nodes=*/1);
    EXPECT_NEAR(again.curve.front().batches, found.curve.back().batches, 1e-9);
    bettered += found.curve.size() > 1 ? 1 : 0;
  }
  EXPECT_GT(bettered, 0) << "none had to be bettered: nothing is shown";
}

TEST(TableSearchTest, ItTriesByItsSeedAndSpendsNoMoreThanItsBudgetAndOneReplay) {
  std::mt19937_64 random(15);
  const LessonBook book = RandomLessons(random, 4, 100);
  const StateEncoding encoding = {.kind = Kind::kSort, .phases = 1, .lowering = true};
  for (const int64_t most : {int64_t{1}, int64_t{1'500}, int64_t{40'000}}) {
    const TableSearchResult found = SearchTable(encoding, {}, book.lessons(), 1, most);
    EXPECT_GE(found.nodes, most);
    EXPECT_LT(found.nodes, most + book.nodes());
  }
  const auto trials = [&](uint64_t seed) {
    std::vector<std::pair<int64_t, double>> points;
    for (const SearchPoint& p : SearchTable(encoding, {}, book.lessons(), seed, 40'000).curve) {
      points.emplace_back(p.trials, p.batches);
    }
    return points;
  };
  EXPECT_EQ(trials(3), trials(3));
  EXPECT_NE(trials(3), trials(4));
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
      for (size_t i = 0; i < 2; ++i) {  // agenda, depth
        EXPECT_LE(result.published.batches[p], result.candidates[i].batches[p])
            << "seed " << kSeed << " round " << round << " proof " << p;
      }
      EXPECT_EQ(WithTable(proofs.lessons()[p].facts->graph, result.published.encoding,
                          result.published.rules),
                result.published.batches[p]);
    }
  }
  EXPECT_GT(tables, 0);
  EXPECT_GT(rules, 0) << "no proof was ever failed: nothing is shown";
}

// Where few proofs decide, a mean hides what users of one kind of requests would lose.
TEST(TrainerTest, ATableIsOnNoProofWorseThanAgendaOrDepthAndThanLbGreedyInTheMean) {
  constexpr uint64_t kSeed = 9;
  std::mt19937_64 random(kSeed);
  int refused = 0, beside_lb_greedy = 0;
  for (int round = 0; round < 5; ++round) {
    const LessonBook lessons = RandomLessons(random, 1, 14), proofs = RandomLessons(random, 8, 40);
    const TrainingResult result =
        TrainOrder(lessons.lessons(), proofs.lessons(),
                   {.seed = 1, .most_nodes = 100'000, .progress = nullptr});
    const auto worse_somewhere = [&](const OrderCandidate& table, size_t than) {
      for (size_t p = 0; p < proofs.lessons().size(); ++p) {
        if (table.batches[p] > result.candidates[than].batches[p]) return true;
      }
      return false;
    };
    if (result.table_is_best) {
      EXPECT_FALSE(worse_somewhere(result.published, 0)) << "agenda, round " << round;
      EXPECT_FALSE(worse_somewhere(result.published, 1)) << "depth, round " << round;
      beside_lb_greedy += worse_somewhere(result.published, 2) ? 1 : 0;
    } else {
      for (const OrderCandidate& c : result.candidates) {
        if (c.is_table && c.over_bound <= result.published.over_bound + 1e-9) ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0) << "no table was better in the mean and refused: nothing is shown";
  EXPECT_GT(beside_lb_greedy, 0) << "seed " << kSeed;
}

// What is by chance: a choice that gains nothing, where the proofs do not need it either.
TEST(TrainerTest, WhatIsPublishedIsTheSmallestOfTheBestTablesAndInItNothingIsByChance) {
  constexpr uint64_t kSeed = 19;
  std::mt19937_64 random(kSeed);
  int settled = 0, smaller = 0;
  for (int round = 0; round < 12; ++round) {
    const LessonBook lessons = RandomLessons(random, 2, 20), proofs = RandomLessons(random, 3, 20);
    const TrainingResult result =
        TrainOrder(lessons.lessons(), proofs.lessons(),
                   {.seed = 1, .most_nodes = 1'000'000, .progress = nullptr});
    if (!result.table_is_best) continue;
    const OrderCandidate* best = nullptr;
    double least = 1e9;
    for (const OrderCandidate& c : result.candidates) {
      if (c.is_table) least = std::min(least, c.over_bound);
      if (c.name == result.published.name) best = &c;
    }
    ASSERT_NE(best, nullptr);
    EXPECT_NEAR(best->over_bound, least, 1e-9) << "seed " << kSeed << " round " << round;
    for (const OrderCandidate& c : result.candidates) {
      if (!c.is_table || c.over_bound > least + 1e-9) continue;
      EXPECT_LE(best->rules.size(), c.rules.size()) << c.name;
      smaller += best->rules.size() < c.rules.size() ? 1 : 0;
    }
    EXPECT_EQ(best->ties_by_chance, best->name.find("from lb_greedy") == std::string::npos);
    if (!best->ties_by_chance) continue;
    const auto expected = SettleTies(best->encoding, best->rules, lessons.lessons()).rules;
    bool proved = true;
    for (size_t p = 0; p < proofs.lessons().size(); ++p) {
      proved &=
          WithTable(proofs.lessons()[p].facts->graph, best->encoding, expected) <= best->batches[p];
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const CellTypeId action = proved ? expected[i].action : best->rules[i].action;
      EXPECT_EQ(result.published.rules[i].action, action) << "round " << round;
      settled += proved && expected[i].action != best->rules[i].action ? 1 : 0;
    }
  }
  EXPECT_GT(settled, 0) << "nothing was by chance: nothing is shown";
  EXPECT_GT(smaller, 0);
}

TEST(TrainerTest, EveryCandidateIsToldOnceAndIsOfTheSeedsAndLessonsThatItsNameSays) {
  std::mt19937_64 random(21);
  const LessonBook lessons = RandomLessons(random, 2, 60), proofs = RandomLessons(random, 2, 60);
  std::vector<std::string> told;
  const TrainingOptions options = {
      .seed = 40, .most_nodes = 2'000'000, .progress = [&](const OrderCandidate& c) {
        told.push_back(c.name);
      }};
  const TrainingResult result = TrainOrder(lessons.lessons(), proofs.lessons(), options);
  std::vector<std::string> names;
  const OrderCandidate* best_of_base = nullptr;
  for (const OrderCandidate& c : result.candidates) {
    names.push_back(c.name);
    if (!c.is_table) continue;
    if (c.name.find("searched") == std::string::npos) {  // by Q, on the second lesson
      double least = 1e9;
      for (const auto& [episodes, batches] : c.curve) least = std::min(least, batches);
      const Lesson& second = lessons.lessons()[1];
      EXPECT_DOUBLE_EQ(
          least,
          static_cast<double>(WithTable(second.facts->graph, c.encoding, c.rules)) / second.bound)
          << c.name;
    }
    if (c.encoding.kind != Kind::kBase || !c.encoding.lowering) continue;
    if (c.name == "fsm base+lowering, searched from learned seed 40") {
      EXPECT_NEAR(c.curve.front().second,
                  OverBound(lessons, best_of_base->encoding, best_of_base->rules), 1e-9)
          << "it begins with the best of its encoding";
    }
    if (best_of_base == nullptr || c.over_bound < best_of_base->over_bound) best_of_base = &c;
  }
  EXPECT_EQ(told, names);
  for (const char* name :
       {"fsm base, clipped seed 40", "fsm sort, bootstrapped seed 41",
        "fsm max+lowering, clipped seed 41", "fsm base+lowering, searched from lb_greedy seed 51",
        "fsm sort+lowering, searched from lb_greedy seed 41"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(TrainerTest, WhatServesACandidateIsItsTableOrTheRuleOfItsName) {
  OrderCandidate candidate;
  for (const auto& [name, kind] :
       {std::pair("agenda", PolicyKind::kAgenda), std::pair("depth", PolicyKind::kDepth),
        std::pair("lb_greedy", PolicyKind::kLbGreedy)}) {
    candidate.name = name;
    EXPECT_EQ(SpecOf(candidate).kind, kind) << name;
  }
  candidate.is_table = true;
  candidate.encoding = {.kind = Kind::kSort, .phases = 1, .lowering = true};
  candidate.rules = {{*MakeState(candidate.encoding, {CellTypeId(0)}, 0), CellTypeId(0)}};
  const PolicySpec spec = SpecOf(candidate);
  EXPECT_EQ(spec.kind, PolicyKind::kFsm);
  EXPECT_EQ(spec.encoding, candidate.encoding);
  EXPECT_EQ(spec.rules.size(), 1u);
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

// Two parts, one behind the other: in the first a before b is a batch less, in the second c before d one more. What the one
// gained is not spent on the other.
TEST(TableTiesTest, WhatAChangeGainedNoOtherChangeLosesAgain) {
  TypedGraph graph(5);
  const int32_t b = graph.Add(1, {}), a = graph.Add(0, {});
  const int32_t join = graph.Add(4, {b, graph.Add(1, {a})});
  graph.Add(2, {join});
  graph.Add(2, {graph.Add(3, {join})});
  LessonBook lessons;
  lessons.Add(std::move(graph));
  const StateEncoding encoding = {.kind = Kind::kBase, .phases = 1, .lowering = false};
  const auto both = [&](int first) {
    return *MakeState(encoding, {CellTypeId(first), CellTypeId(first + 1)}, 0);
  };
  const std::vector<FsmTable::Rule> rules = {{both(0), CellTypeId(1)}, {both(2), CellTypeId(3)}};
  const int32_t before = WithTable(lessons.lessons()[0].facts->graph, encoding, rules);
  const SettledTable table = SettleTies(encoding, rules, lessons.lessons());
  EXPECT_EQ(table.rules[0].action, CellTypeId(0));
  EXPECT_EQ(table.rules[1].action, CellTypeId(3));
  EXPECT_EQ(WithTable(lessons.lessons()[0].facts->graph, encoding, table.rules), before - 1);
}

TEST(TableTiesTest, OnNoLessonItTakesMoreBatchesThanBefore) {
  constexpr uint64_t kSeed = 23;
  std::mt19937_64 random(kSeed);
  int changed = 0;
  for (int round = 0; round < 30; ++round) {
    const LessonBook lessons = RandomLessons(random, 3, 30);
    const StateEncoding encoding = {.kind = Kind::kBase, .phases = 1, .lowering = true};
    const auto rules = SearchTable(encoding, {}, lessons.lessons(), 1, 20'000).rules;
    const SettledTable table = SettleTies(encoding, rules, lessons.lessons());
    for (const Lesson& lesson : lessons.lessons()) {
      EXPECT_LE(WithTable(lesson.facts->graph, encoding, table.rules),
                WithTable(lesson.facts->graph, encoding, rules))
          << "seed " << kSeed << " round " << round;
    }
    for (size_t i = 0; i < rules.size(); ++i) {
      changed += table.rules[i].action != rules[i].action ? 1 : 0;
    }
  }
  EXPECT_GT(changed, 0) << "nothing was a tie: nothing is shown";
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
  for (const OrderCandidate& c : result.candidates) {
    EXPECT_EQ(c.name.find("searched"), std::string::npos) << "nothing was left to find";
  }
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

TEST(LessonsTest, NothingIsProvedOnWhatWasLearnedFrom) {
  std::vector<TypedGraph> requests(26, Chains({"aab"}));
  requests.insert(requests.end(), 26, Chains({"bba"}));
  const LessonBooks books = DealOut(requests);
  const auto all_of = [](const LessonBook& book, int32_t type) {
    int64_t nodes = 0;
    for (const Lesson& lesson : book.lessons()) {
      const auto types = lesson.facts->graph.types();
      nodes += std::count(types.begin(), types.end(), type);
    }
    return nodes;
  };
  EXPECT_EQ(all_of(books.learn, 0), 2 * 26);
  EXPECT_EQ(all_of(books.learn, 1), 26);
  EXPECT_EQ(all_of(books.prove, 0), 26);
  EXPECT_EQ(all_of(books.prove, 1), 2 * 26);
}

}  // namespace
}  // namespace cellbatch
