// What the unfolder knows, on the zoo's real requests: what policies make of it, that rows lie as they are said to, and
// that no answer differs by a bit.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cells/cell_graph_depths.h"
#include "gtest/gtest.h"
#include "scheduler/clock.h"
#include "scheduler/offline/lower_bound.h"
#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/scheduler.h"
#include "tests/bench/in_process.h"
#include "tests/bench/stepped.h"
#include "tests/ordering/zoo_graphs.h"
#include "tests/zoo/workload.h"

namespace cellbatch::ordering {
namespace {

constexpr size_t kRequests = 32;
constexpr char kNothing[] = "phases: OFF ghosts: OFF", kPhases[] = "phases: ON ghosts: OFF";

int32_t Batches(const std::string& workload, const char* unfold, const Policy& policy) {
  const TypedGraph graph = UnfoldZoo(workload, unfold, kRequests).Batch(0, kRequests);
  const GraphFacts facts(graph);
  const ReplayReport report = RunClosed(facts, policy);
  EXPECT_EQ(FaultOf(graph, report.schedule), "") << workload;
  return report.batches;
}

TEST(UnfoldOptionsTest, ToldPhasesDepthIsAtTheBoundOnSentencesTreesTaggersAndTranslations) {
  for (const char* const name :
       {"lstm", "bilstm_tagger", "bilstm_tagger_char", "nmt", "treelstm", "treegru", "mvrnn"}) {
    const int32_t bound = LowerBound(UnfoldZoo(name, kNothing, kRequests).Batch(0, kRequests));
    EXPECT_EQ(Batches(name, kPhases, DepthPolicy()), bound) << name;
  }
}

TEST(UnfoldOptionsTest, ToldPhasesNeitherDepthNorAgendaTakesMoreBatchesOfAnyWorkload) {
  for (const std::string_view view : zoo::WorkloadNames()) {
    const std::string name(view);
    const AgendaPolicy agenda(AgendaMean::kWholeGraph);
    const DepthPolicy depth;
    for (const Policy* policy :
         {static_cast<const Policy*>(&agenda), static_cast<const Policy*>(&depth)}) {
      EXPECT_LE(Batches(name, kPhases, *policy), Batches(name, kNothing, *policy)) << name;
    }
  }
}

// So the earliest phase with anything ready follows from the types that are ready: a learned state has it already.
TEST(UnfoldOptionsTest, EachTypeOfTheZooBelongsToOnePhase) {
  for (const std::string_view name : zoo::WorkloadNames()) {
    const ZooGraphs zoo = UnfoldZoo(std::string(name), kPhases, kRequests);
    if (zoo.phases == 1) continue;
    const TypedGraph graph = zoo.Batch(0, kRequests);
    std::vector<int32_t> phases(zoo.types.size(), -1);
    for (int32_t v = 0; v < graph.size(); ++v) {
      int32_t& phase = phases[static_cast<size_t>(graph.type(v))];
      const int32_t told = graph.told_depth(v) / PhaseStride(zoo.phases);
      EXPECT_TRUE(phase == -1 || phase == told) << name << ", type " << graph.type(v);
      phase = told;
    }
  }
}

TEST(UnfoldOptionsTest, OfALatticeAllIsToldUnlessTheModelSaysNoAndDepthTakesFewerBatches) {
  const DepthPolicy depth;
  for (const char* const name : {"latticelstm", "latticegru"}) {
    const int32_t all = Batches(name, "", depth);
    EXPECT_EQ(all, Batches(name, "phases: ON ghosts: ON", depth)) << name;
    EXPECT_LT(all, Batches(name, kPhases, depth)) << name;
    EXPECT_LT(Batches(name, kPhases, depth), Batches(name, kNothing, depth)) << name;
  }
}

// Bytes of every tensor of the first requests, asked for everything that the workload has.
std::vector<std::string> Answers(const zoo::Workload& workload, const char* unfold,
                                 std::unique_ptr<const Policy> policy) {
  const std::shared_ptr<const Model> model =
      LoadWorkload(workload, ModelId(1), "unfold { " + std::string(unfold) + " }\n");
  SteadyClock clock;
  SchedulerOptions options;
  options.threads = false;
  const auto scheduler =
      Require(Scheduler::Create(options, MakeDevices("cpu:0"), clock), "scheduler");
  Require(scheduler->AddModel(model, std::move(policy)), "adding " + workload.name);
  for (size_t i = 0; i < workload.requests.size(); ++i) {
    std::unique_ptr<Request> request =
        MakeRequest(model, workload.requests[i], {}, scheduler->max_tasks_in_flight());
    request->tag = i;
    EXPECT_TRUE(scheduler->Submit(request).has_value());
  }
  std::vector<std::string> answers(workload.requests.size());
  std::vector<std::unique_ptr<Request>> finished(workload.requests.size());
  for (size_t left = answers.size(); left > 0;) {
    scheduler->StepManager();
    scheduler->StepWorker(0);
    const int n = scheduler->Take(OutboxId(0), absl::MakeSpan(finished));
    for (int k = 0; k < n; ++k, --left) {
      Request& done = *finished[static_cast<size_t>(k)];
      EXPECT_TRUE(done.status.ok()) << done.status;
      for (const ReturnedTensor& t : done.graph.tensors()) {
        answers[done.tag].append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
      }
      finished[static_cast<size_t>(k)].reset();
    }
  }
  scheduler->Stop();
  return answers;
}

TEST(UnfoldOptionsTest, NoAnswerDiffersByABit) {
  for (const char* const name : {"treelstm_2type", "latticelstm", "bilstm_tagger_char", "nmt"}) {
    const zoo::Workload workload = zoo::MakeWorkload(name, zoo::Sizes{}, 12);
    const std::vector<std::string> plain = Answers(workload, kNothing, nullptr);
    EXPECT_NE(plain[0], plain[1]) << "they would all be the same";
    const char* const all = "phases: ON ghosts: ON level_rows: ON";
    EXPECT_EQ(Answers(workload, all, nullptr), plain) << name;
    EXPECT_EQ(Answers(workload, all, std::make_unique<DepthPolicy>()), plain) << name;
    EXPECT_EQ(Answers(workload, all, std::make_unique<AgendaPolicy>(AgendaMean::kRemaining)), plain)
        << name;
  }
}

}  // namespace
}  // namespace cellbatch::ordering
