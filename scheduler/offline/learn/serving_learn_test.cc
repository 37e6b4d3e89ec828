// Claims about learning for latency: a search's word is good, an order that is plainly bad is bettered, nothing is published
// that was worse in its proof than what needs no learning, and the same seed publishes the same.
#include <gtest/gtest.h>

#include <algorithm>
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
