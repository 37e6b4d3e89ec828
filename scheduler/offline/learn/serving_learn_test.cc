// Claims about learning for latency: a search's word is good, an order that is plainly bad is bettered, nothing is published
// that was worse in its proof than what needs no learning, and the same seed publishes the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/offline/learn/serving_curve.h"
#include "scheduler/offline/learn/serving_search.h"
#include "scheduler/offline/learn/serving_trainer.h"
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using scheduler_testing::kChain;
using scheduler_testing::kHead;
using scheduler_testing::kIn0;
using scheduler_testing::kIn1;
using scheduler_testing::kLeaf;
using scheduler_testing::kPair;
using scheduler_testing::kTokens;
using scheduler_testing::kY;

using Kind = StateEncoding::Kind;

// Whose tasks Algorithm 1 runs first: a later stage's, which is right, or an earlier one's, which holds everybody up.
std::shared_ptr<const Model> ModelWith(bool later_first) {
  auto model = scheduler_testing::MakeModel(ModelId(1));
  for (CellType& type : model->types) type.priority *= later_first ? 1 : -1;
  return model;
}

// 100 + 2 b microseconds: a task costs as much as fifty nodes.
TaskCosts Costs() {
  std::vector<TypeCosts> types(5);
  for (TypeCosts& type : types) {
    type.max_batch = 64;
    for (const int32_t b : {1, 2, 64}) type.points.push_back({b, 100'000 + b * 2'000});
  }
  return *TaskCosts::Of(std::move(types));
}

// Shape n: a tree of n + 2 leaves that leans to one side for odd n, with a head; and a sentence of as many words and its
// own head.
CellGraph TreeAndSentence(int32_t shape, int max_tasks_in_flight) {
  CellGraph graph;
  const int32_t leaves = shape + 2;
  const SubgraphId tokens = graph.AddInput(kTokens, leaves, graph.Keep(4 * leaves));
  const SubgraphId set =
      graph.Add(kLeaf, leaves, {{.from = tokens, .input = kIn0, .first = 0, .stride = 1}});
  std::vector<Link> open;
  for (int32_t i = 0; i < leaves; ++i) open.push_back({.from = set, .input = kIn0, .first = i});
  while (open.size() > 1) {
    const size_t at = shape % 2 == 0 ? 0 : open.size() - 2;
    Link left = open[at], right = open[at + 1];
    right.input = kIn1;
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at),
               open.begin() + static_cast<std::ptrdiff_t>(at) + 2);
    const Link made = {.from = graph.Add(kPair, 1, {left, right}), .input = kIn0};
    open.insert(shape % 2 == 0 ? open.end() : open.begin(), made);
  }
  const SubgraphId chain =
      graph.Add(kChain, leaves, {{.from = tokens, .input = kIn0, .first = 0, .stride = 1}});
  const int32_t tensor = graph.AddTensor("OUTPUT", WireType::kFp32, {2, 2});
  const SubgraphId of_tree = graph.Add(kHead, 1, {open[0]});
  const SubgraphId of_chain =
      graph.Add(kHead, 1, {{.from = chain, .input = kIn0, .first = kLastNode}});
  graph.Return(of_tree, kY, {}, {.tensor = tensor, .offset_bytes = 0});
  graph.Return(of_chain, kY, {}, {.tensor = tensor, .offset_bytes = 8});
  const absl::Status sealed = graph.Seal(*ModelWith(true), max_tasks_in_flight);
  EXPECT_TRUE(sealed.ok()) << sealed;
  return graph;
}

ServedModel Served(bool later_first = true, int32_t shapes = 16) {
  ServedModel served;
  served.model = ModelWith(later_first);
  served.costs = Costs();
  served.make = TreeAndSentence;
  served.shapes = shapes;
  served.world.row_budget_bytes = 16 << 20;
  return served;
}

std::vector<std::vector<Arrival>> Lessons(const ServedModel& served, double load, int lists,
                                          uint64_t seed) {
  std::vector<std::vector<Arrival>> lessons;
  const double rate = load * CapacityOf(served, seed);
  for (int i = 0; i < lists; ++i) {
    lessons.push_back(PoissonArrivals(rate, 300, served.shapes, seed + static_cast<uint64_t>(i)));
  }
  return lessons;
}

TEST(ServingSearchTest, ServedItsTablesTakeAsLongAsItSaidAndNeverLongerThanItsFirst) {
  const ServedModel served = Served();
  const auto lessons = Lessons(served, 0.6, 2, 7);
  for (const int fill : {0, 4}) {
    ServingSearchOptions options;
    options.encoding = {.kind = Kind::kBase, .phases = 1, .lowering = fill == 0, .fill = fill};
    options.most_nodes = 1'500'000;
    const ServingSearchResult found = SearchServing(served, lessons, options);
    PolicySpec spec;
    spec.kind = PolicyKind::kFsm;
    spec.encoding = options.encoding;
    spec.rules = found.rules;
    const auto world = WorldOf(served, spec);
    double sum = 0;
    for (const auto& lesson : lessons) {
      sum += ObjectiveOf(world->Run(lesson, SkippedOf(lesson.size())), options.tail_weight) / 2;
    }
    EXPECT_NEAR(sum, found.curve.back().objective_ns, 1e-6 * sum) << "fill " << fill;
    EXPECT_LE(found.curve.back().objective_ns, found.curve.front().objective_ns);
    EXPECT_GT(found.trials, 5) << "fill " << fill;
  }
}

TEST(ServingSearchTest, WhatIsToBeSmallIsAMixOfMeanAndP99) {
  WorldReport report;
  report.mean_ns = 100;
  report.p50_ns = 7;
  report.p99_ns = 1'000;
  EXPECT_DOUBLE_EQ(ObjectiveOf(report, 0), 100);
  EXPECT_DOUBLE_EQ(ObjectiveOf(report, 0.25), 325);
  EXPECT_DOUBLE_EQ(ObjectiveOf(report, 1), 1'000);
}

// What Algorithm 1 does, written down: every state that was met has its rule, and it takes as long.
TEST(ServingSearchTest, FromAlgorithmOneAllThatItDoesIsWritten) {
  const ServedModel served = Served();
  const auto lessons = Lessons(served, 0.6, 2, 7);
  ServingSearchOptions options;
  options.encoding = {.kind = Kind::kBase, .phases = 1, .lowering = false};
  options.start = PolicyKind::kCellular;
  options.most_nodes = 1;
  const ServingSearchResult found = SearchServing(served, lessons, options);
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  spec.encoding = options.encoding;
  spec.rules = found.rules;
  const auto table = WorldOf(served, spec), algorithm_1 = WorldOf(served, PolicySpec());
  for (const auto& lesson : lessons) {
    EXPECT_EQ(table->Run(lesson).mean_ns, algorithm_1->Run(lesson).mean_ns);
  }
}

// As the budget grows one play at a time, every table that was the best for a while is seen.
std::vector<std::vector<FsmTable::Rule>> BestTables(
    const ServedModel& served, const std::vector<std::vector<Arrival>>& lessons,
    ServingSearchOptions options) {
  std::vector<std::vector<FsmTable::Rule>> tables;
  size_t points = 0;
  for (options.most_nodes = 1; options.most_nodes < 60'000;) {
    const ServingSearchResult found = SearchServing(served, lessons, options);
    if (found.nodes < options.most_nodes) break;  // nothing more to try
    if (found.curve.size() > points) tables.push_back(found.rules);
    points = found.curve.size();
    options.most_nodes = found.nodes + 1;
  }
  return tables;
}

TEST(ServingSearchTest, AChangeIsKeptOnlyWhereItGainsMoreThanItsStandardError) {
  const ServedModel served = Served();
  int kept = 0;
  for (const uint64_t seed : {7, 8, 9}) {
    std::vector<std::vector<Arrival>> lessons = Lessons(served, 0.9, 2, seed);
    for (auto& lesson : lessons) lesson.resize(60);
    ServingSearchOptions options;
    options.encoding = {.kind = Kind::kBase, .phases = 1, .lowering = false, .fill = 4};
    options.start = PolicyKind::kCellular;
    options.seed = seed;
    std::vector<double> before;
    for (const auto& rules : BestTables(served, lessons, options)) {
      PolicySpec spec;
      spec.kind = PolicyKind::kFsm;
      spec.encoding = options.encoding;
      spec.rules = rules;
      const auto world = WorldOf(served, spec);
      std::vector<double> now;
      for (const auto& lesson : lessons) {
        now.push_back(ObjectiveOf(world->Run(lesson, SkippedOf(lesson.size())), 0.5));
      }
      if (!before.empty()) {  // of two: half their sum, half their difference
        const double one = before[0] - now[0], two = before[1] - now[1];
        EXPECT_GT((one + two) / 2, std::abs(one - two) / 2) << "seed " << seed;
        ++kept;
      }
      before = std::move(now);
    }
  }
  EXPECT_GT(kept, 5);
}

TEST(ServingSearchTest, ItTriesByItsSeedAndSpendsNoMoreThanItsBudgetAndOnePlay) {
  const ServedModel served = Served();
  const auto lessons = Lessons(served, 0.8, 2, 11);
  ServingSearchOptions options;
  options.encoding = {.kind = Kind::kBase, .phases = 1, .lowering = true};
  options.most_nodes = 1;
  const int64_t play = SearchServing(served, lessons, options).nodes;
  options.most_nodes = 5 * play;
  const ServingSearchResult found = SearchServing(served, lessons, options);
  EXPECT_GE(found.nodes, 5 * play);
  EXPECT_LT(found.nodes, 6 * play);
  options.most_nodes = 30 * play;
  const auto curve = [&](uint64_t seed) {
    options.seed = seed;
    std::vector<std::pair<int64_t, double>> points;
    for (const ServingPoint& p : SearchServing(served, lessons, options).curve) {
      points.emplace_back(p.trials, p.objective_ns);
    }
    return points;
  };
  EXPECT_EQ(curve(3), curve(3));
  EXPECT_NE(curve(3), curve(4));
}

ServingTrainingOptions Small(uint64_t seed) {
  ServingTrainingOptions options;
  options.seed = seed;
  options.load = 0.8;
  options.most_nodes = 2'000'000;
  options.lesson_requests = 200;
  options.proof_requests = 300;
  return options;
}

// What every request needs last waits behind whoever came after it: the guard alone lets it run.
TEST(ServingTrainerTest, WhereEarlierStagesGoFirstATableIsFarBetterThanAlgorithmOne) {
  ServingTrainingOptions options = Small(1);
  options.lesson_requests = 500;
  options.proof_requests = 1'000;
  options.load = 0.5;
  options.most_nodes = 6'000'000;
  const ServingTrainingResult result = TrainServing(Served(/*later_first=*/false), {}, options);
  const ServingCandidate& algorithm_1 = result.candidates[0];
  ASSERT_EQ(algorithm_1.name, "cellular");
  const auto table = std::find_if(result.candidates.begin(), result.candidates.end(),
                                  [](const auto& c) { return c.is_table && c.objective_ns > 0; });
  ASSERT_NE(table, result.candidates.end()) << "no table was proved";
  EXPECT_LT(table->objective_ns, 0.9 * algorithm_1.objective_ns);
}

TEST(ServingTrainerTest, APolicyWithOtherPrioritiesIsShownAndNeverPublished) {
  NamedPolicy right = {"right", PolicySpec(), {}};
  const auto later_first = ModelWith(/*later_first=*/true);
  for (const CellType& type : later_first->types) right.priorities.push_back(type.priority);
  ServingTrainingOptions options = Small(1);
  options.most_nodes = 100'000;
  const ServingTrainingResult wrong_world =
      TrainServing(Served(/*later_first=*/false), absl::MakeConstSpan(&right, 1), options);
  const ServingCandidate& shown = wrong_world.candidates[3];
  EXPECT_EQ(shown.name, "right");
  EXPECT_NE(shown.objective_ns, wrong_world.candidates[0].objective_ns);
  EXPECT_NE(wrong_world.published.name, "right");
}

// Nothing is searched for, and what was brought is by far the best.
TEST(ServingTrainerTest, OtherPrioritiesAreNotPublishedHoweverMuchBetterTheyAre) {
  NamedPolicy other = {"other", PolicySpec(), {}};
  const auto earlier_first = ModelWith(/*later_first=*/false);
  for (const CellType& type : earlier_first->types) other.priorities.push_back(type.priority);
  ServingTrainingOptions options = Small(1);
  options.load = 0.5;
  options.most_nodes = 1;
  const ServingTrainingResult result =
      TrainServing(Served(), absl::MakeConstSpan(&other, 1), options);
  EXPECT_LT(result.candidates[3].objective_ns, 0.9 * result.published.objective_ns);
  EXPECT_NE(result.published.name, "other");
  EXPECT_TRUE(result.published.priorities.empty());
}

// Which shapes were played, and when the second and third of a list came after its first, between two that were told of.
struct Played {
  std::string name;
  bool proved = false;
  std::set<int32_t> shapes;
  std::set<std::pair<int64_t, int64_t>> times;
  uint64_t most = 0;  // of a list
};

std::vector<Played> PlayedWhile(ServedModel served, const ServingTrainingOptions& given) {
  std::vector<Played> played;
  Played now;
  std::map<uint64_t, int64_t> came;  // of a list, by tag: answers have an order of their own
  const auto list_ends = [&] {
    if (came.size() > 2) now.times.emplace(came[1] - came[0], came[2] - came[0]);
    came.clear();
  };
  served.make = [make = served.make, &now](int32_t shape, int max_tasks_in_flight) {
    now.shapes.insert(shape);
    return make(shape, max_tasks_in_flight);
  };
  served.world.answered = [&](uint64_t tag, const Request& request) {
    if (came.contains(tag)) list_ends();
    came[tag] = request.times.submitted;
    now.most = std::max(now.most, tag);
  };
  ServingTrainingOptions options = given;
  options.progress = [&](const ServingCandidate& c) {
    list_ends();
    now.name = c.name;
    now.proved = !c.proofs_ns.empty();
    played.push_back(std::exchange(now, {}));
  };
  TrainServing(served, {}, options);
  return played;
}

TEST(ServingTrainerTest, ItProvesOnRequestsAndTimesThatItNeitherLearnedFromNorChoseBy) {
  for (const int32_t shapes : {7, 8}) {
    ServingTrainingOptions options = Small(1);
    options.most_nodes = 200'000;
    std::vector<Played> played = PlayedWhile(Served(true, shapes), options);
    ASSERT_GT(played.size(), 5u);
    played.erase(played.begin());  // with it the capacity was measured, of all requests
    std::set<int32_t> even, odd;
    for (int32_t shape = 0; shape < shapes; ++shape) (shape % 2 == 0 ? even : odd).insert(shape);
    std::set<std::pair<int64_t, int64_t>> proof_times, other_times;
    int tables = 0;
    for (const Played& p : played) {
      if (!p.proved) {
        EXPECT_EQ(p.shapes, even) << p.name;
        EXPECT_EQ(p.most + 1, options.proof_requests) << "chosen by lists of its own, not lessons";
        other_times.insert(p.times.begin(), p.times.end());
        ++tables;
      } else if (p.name.find("fsm") == std::string::npos) {
        EXPECT_EQ(p.shapes, odd) << p.name;
        EXPECT_EQ(p.times.size(), 6u) << p.name << ": lists";
        proof_times.insert(p.times.begin(), p.times.end());
      }  // else a search that found nothing was not told of before it
    }
    EXPECT_GT(tables, 2);
    for (const auto& times : other_times) EXPECT_EQ(proof_times.count(times), 0u);
  }
}

TEST(ServingTrainerTest, WhatIsSaidOfACandidateIsOneOfTheOther) {
  ServingTrainingOptions options = Small(4);
  options.tail_weight = 0.9;
  const ServingTrainingResult result = TrainServing(Served(), {}, options);
  const ServingCandidate *best = nullptr, *table = nullptr;
  int from_algorithm_1 = 0;
  for (const ServingCandidate& c : result.candidates) {
    if (c.name.find("from cellular") != std::string::npos) {
      EXPECT_NEAR(c.curve.front().second, 1, 1e-9) << c.name << " begins as Algorithm 1";
      EXPECT_GT(c.trials, 0) << c.name << ": something is left of the budget for it";
      ++from_algorithm_1;
    }
    if (c.proofs_ns.empty()) continue;
    EXPECT_NEAR(c.objective_ns, 0.1 * c.mean_ns + 0.9 * c.p99_ns, 1e-6 * c.objective_ns) << c.name;
    double sum = 0;
    for (const double proof : c.proofs_ns) sum += proof;
    EXPECT_NEAR(c.objective_ns, sum / 6, 1e-6 * sum);
    EXPECT_GT(c.p99_ns, c.mean_ns) << c.name;
    if (c.is_table) table = &c;
    if (!c.is_table && (best == nullptr || c.objective_ns < best->objective_ns)) best = &c;
  }
  EXPECT_EQ(from_algorithm_1, 2);
  ASSERT_NE(table, nullptr);
  for (const ServingCandidate& c : result.candidates) {
    EXPECT_TRUE(!c.is_table || table->choice_ns <= c.choice_ns) << "the chosen one is proved";
  }
  EXPECT_DOUBLE_EQ(result.gain_ns, best->objective_ns - table->objective_ns);
  double squares = 0;
  for (size_t i = 0; i < 6; ++i) {
    const double apart = best->proofs_ns[i] - table->proofs_ns[i] - result.gain_ns;
    squares += apart * apart;
  }
  EXPECT_NEAR(result.gain_error_ns, std::sqrt(squares / 30), 1e-6 * result.gain_error_ns);
  EXPECT_LT(result.nodes, options.most_nodes + options.most_nodes / 2) << "proofs among them";
}

TEST(ServingTrainerTest, AnotherSeedIsProvedAtOtherTimes) {
  // Rates differ by a little; who came when, in parts of another, by nothing else.
  const auto part = [](uint64_t seed) {
    ServingTrainingOptions options = Small(seed);
    options.most_nodes = 1;
    const auto [second, third] = *PlayedWhile(Served(), options)[1].times.begin();
    return static_cast<double>(third) / static_cast<double>(second);
  };
  const double one = part(1);
  EXPECT_DOUBLE_EQ(part(1), one);
  EXPECT_GT(std::abs(part(2) - one), 0.01 * one);
}

TEST(ServingTrainerTest, WhatIsPublishedIsNeverWorseThanAnyOtherPolicyAndSometimesIsOne) {
  int tables = 0, others = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    // Few arrivals and little time, so that what is learned is sometimes of them alone.
    ServingTrainingOptions options = Small(seed);
    options.lesson_requests = 20;
    options.most_nodes = seed % 2 == 0 ? 5'000 : 300'000;
    options.load = seed % 2 == 0 ? 0.2 : 0.9;
    const ServingTrainingResult result = TrainServing(Served(), {}, options);
    (result.table_is_best ? tables : others) += 1;
    EXPECT_EQ(result.table_is_best, result.published.is_table);
    for (const ServingCandidate& c : result.candidates) {
      EXPECT_EQ(c.is_table, !c.spec.rules.empty()) << c.name;
    }
    ASSERT_EQ(result.others, 3u);
    for (size_t i = 0; i < result.others; ++i) {
      EXPECT_LE(result.published.objective_ns, result.candidates[i].objective_ns)
          << "seed " << seed << " against " << result.candidates[i].name;
    }
    EXPECT_NEAR(result.requests_per_s, options.load * result.capacity_per_s, 1e-6);
  }
  EXPECT_GT(tables, 0);
  EXPECT_GT(others, 0) << "no proof was ever failed: nothing is shown";
}

TEST(ServingTrainerTest, TheSameSeedPublishesTheSame) {
  const ServingTrainingResult one = TrainServing(Served(), {}, Small(3));
  const ServingTrainingResult two = TrainServing(Served(), {}, Small(3));
  EXPECT_EQ(one.published.name, two.published.name);
  EXPECT_EQ(one.published.proofs_ns, two.published.proofs_ns);
  EXPECT_EQ(one.nodes, two.nodes);
  ASSERT_EQ(one.candidates.size(), two.candidates.size());
  for (size_t i = 0; i < one.candidates.size(); ++i) {
    EXPECT_EQ(one.candidates[i].choice_ns, two.candidates[i].choice_ns);
  }
}

TEST(ServingTrainerTest, WhatTheCallerBringsIsComparedAndIsBegunWith) {
  PolicySpec spec;
  spec.kind = PolicyKind::kFsm;
  spec.encoding = {.kind = Kind::kBase, .phases = 1, .lowering = true};
  const StateKey both = *MakeState(spec.encoding, {kChain, kPair}, 0);
  spec.rules = {{both, kPair}};
  ServingTrainingOptions options = Small(2);
  options.most_nodes = 300'000;
  std::vector<std::string> seen;
  options.progress = [&](const ServingCandidate& c) { seen.push_back(c.name); };
  const NamedPolicy mine = {"mine", spec};
  const ServingTrainingResult result =
      TrainServing(Served(), absl::MakeConstSpan(&mine, 1), options);
  ASSERT_EQ(result.others, 4u);
  EXPECT_EQ(result.candidates[3].name, "mine");
  EXPECT_GT(result.candidates[3].objective_ns, 0);
  EXPECT_TRUE(std::any_of(result.candidates.begin(), result.candidates.end(),
                          [](const auto& c) { return c.name == "fsm base+lowering, from mine"; }));
  EXPECT_EQ(seen.size(), result.candidates.size() + 1) << "the chosen table once more, proved";
  const std::string svg = ServingCurveSvg(result, "a < b");
  size_t lines = 0;
  for (size_t at = 0; (at = svg.find("<polyline", at)) != svg.npos; ++at) ++lines;
  EXPECT_EQ(lines, result.candidates.size() - 4 + (result.table_is_best ? 1 : 0));
  EXPECT_NE(svg.find("a &lt; b"), svg.npos);
  EXPECT_EQ(svg.find("nan"), svg.npos);
}

}  // namespace
}  // namespace cellbatch
