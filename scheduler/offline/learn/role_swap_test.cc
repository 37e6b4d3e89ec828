// Claims about Appendix A.4 where requests are served: two networks in series whose types swap roles. No table over what is
// ready alone orders them well (learn_test); what is learned for latency does, by its states or by what it falls back to.
//
//   k = 3     I - I - I            O - O - O
//             |   |   |            |   |   |            I before O on the left, O before I on the right, R last in both:
//             O   O   O    R ----> I   I   I    R       2 (k + 2) batches, where one fixed order of types takes more
//             +---+---+---/        +---+---+---/
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "cells/any_cell.h"
#include "scheduler/offline/learn/serving_search.h"
#include "scheduler/offline/learn/serving_trainer.h"

namespace cellbatch {
namespace {

constexpr TableId kTokens(0), kState(1);
constexpr CellTypeId kSource(0), kI(1), kO(2), kR(3);
constexpr InputId kIn(0);
constexpr int64_t kTaskNs =
    100'000;  // whatever its size: users wait for tasks, and for nothing else

std::shared_ptr<const Model> SwappingModel() {
  const Column token{"token", ElementType::kInt32, 1}, h{"h", ElementType::kFp32, 4};
  auto model = std::make_shared<Model>();
  model->id = ModelId(1);
  model->name = "swapping";
  model->tables = {{"tokens", {token}}, {"state", {h}}};
  const auto add = [&](const char* name, Input input, TableId reads) {
    model->types.push_back({.id = CellTypeId(static_cast<int64_t>(model->types.size())),
                            .name = name,
                            .definition = testing::AnyCell(name, {std::move(input)}, {h}),
                            .weights = {},
                            .in = {reads},
                            .out = kState,
                            .min_batch = 1,
                            .max_batch = 64,
                            .priority = 0});
  };
  add("source", {"x", {token}}, kTokens);
  for (const char* name : {"I", "O", "R"}) add(name, {"x", {h}, Arity::kSum}, kState);
  return model;
}

// Shape n: k = n + 2.
CellGraph RoleSwap(int32_t shape, int max_tasks_in_flight) {
  CellGraph graph;
  const SubgraphId token = graph.AddInput(kTokens, 1, graph.Keep(4));
  SubgraphId below = graph.Add(kSource, 1, {{.from = token, .input = kIn}});
  for (const auto& [chain, outputs] : {std::pair(kI, kO), std::pair(kO, kI)}) {
    std::vector<Link> read;
    for (int32_t i = 0; i < shape + 2; ++i) {
      below = graph.Add(chain, 1, {{.from = below, .input = kIn}});
      read.push_back(
          {.from = graph.Add(outputs, 1, {{.from = below, .input = kIn}}), .input = kIn});
    }
    below = graph.Add(kR, 1, read);
  }
  graph.Return(below, ColumnId(0), {}, {.tensor = graph.AddTensor("OUTPUT", WireType::kFp32, {4})});
  const absl::Status sealed = graph.Seal(*SwappingModel(), max_tasks_in_flight);
  EXPECT_TRUE(sealed.ok()) << sealed;
  return graph;
}

int64_t FewestTasks(int32_t shape) { return 1 + 2 * (shape + 2 + 2); }

ServedModel Served(int32_t shapes) {
  ServedModel served;
  served.model = SwappingModel();
  std::vector<TypeCosts> types(served.model->types.size());
  for (TypeCosts& type : types) {
    type.max_batch = 64;
    type.points = {{1, kTaskNs}, {64, kTaskNs}};
  }
  served.costs = *TaskCosts::Of(std::move(types));
  served.make = RoleSwap;
  served.shapes = shapes;
  served.world.row_budget_bytes = 16 << 20;
  return served;
}

// Each alone in the world.
std::vector<int64_t> TasksOf(const ServedModel& served, const PolicySpec& spec) {
  std::vector<int64_t> tasks;
  const auto world = WorldOf(served, spec);
  for (int32_t shape = 0; shape < served.shapes; ++shape) {
    const std::vector<Arrival> one = {{.at_ns = 0, .shape = shape}};
    tasks.push_back(world->Run(one).tasks);
  }
  return tasks;
}

TEST(RoleSwapTest, WhatIsPublishedTakesTheFewestTasksOfEachRequest) {
  const ServedModel served = Served(/*shapes=*/6);
  std::vector<int64_t> fewest;
  for (int32_t shape = 0; shape < served.shapes; ++shape) fewest.push_back(FewestTasks(shape));
  ServingTrainingOptions options;
  options.load = 0.02;  // hardly anybody meets anybody: what counts is each request's own order
  options.most_nodes = 3'000'000;
  options.lesson_requests = 200;
  options.proof_requests = 400;
  const ServingTrainingResult learned = TrainServing(served, {}, options);
  EXPECT_EQ(TasksOf(served, learned.published.spec), fewest) << learned.published.name;
  const ServingCandidate& algorithm_1 = learned.candidates[0];
  ASSERT_EQ(algorithm_1.name, "cellular");
  EXPECT_LT(learned.published.objective_ns, 0.95 * algorithm_1.objective_ns);
}

TEST(RoleSwapTest, ServedToManyAtOnceItIsNeverWorseThanWhatNeedsNoLearning) {
  ServingTrainingOptions options;
  options.load = 0.6;
  options.most_nodes = 4'000'000;
  options.lesson_requests = 200;
  options.proof_requests = 400;
  const ServingTrainingResult learned = TrainServing(Served(/*shapes=*/6), {}, options);
  ASSERT_EQ(learned.others, 3u);
  for (size_t i = 0; i < learned.others; ++i) {
    EXPECT_LE(learned.published.objective_ns, learned.candidates[i].objective_ns)
        << learned.candidates[i].name;
  }
  EXPECT_LT(learned.published.objective_ns, 0.95 * learned.candidates[0].objective_ns);
}

}  // namespace
}  // namespace cellbatch
