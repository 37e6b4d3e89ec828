// cellbatch-learn on whole models of the zoo: what it writes is read back for that model, decides like the table that it
// proved, and is the same again for the same seed; what it cannot learn from is refused by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "scheduler/offline/replay.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "server/learn/learn_order.h"
#include "server/learn/learn_serving.h"
#include "server/learn/measured_costs.h"
#include "server/repository/model_loader.h"
#include "tests/ordering/zoo_graphs.h"
#include "tests/zoo/workload.h"

namespace cellbatch::ordering {
namespace {

std::string Contents(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class LearnModelTest : public ::testing::Test {
 protected:
  // What an earlier run left in the same folder, finished or not, is nothing that this one has written.
  LearnModelTest() {
    std::filesystem::remove_all(repository_);
    std::filesystem::remove_all(repository_ + ".new");
  }
  void Write(const std::string& name) {
    zoo::MakeWorkload(name, zoo::Sizes{}, 1).model.Write(repository_, name);
    options_.repository = repository_;
    options_.model = name;
  }
  // Of a model that is written.
  void ChangeConfig(std::string_view from, std::string_view to) {
    const std::string file = InTemp(options_.model + "/config.textproto");
    std::string text = Contents(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    std::ofstream(file) << text.replace(at, from.size(), to);
  }
  std::string InTemp(const std::string& name) const { return repository_ + "/" + name; }
  std::string Refused() const {
    const absl::StatusOr<LearnedOrder> learned = LearnOrder(options_);
    return learned.ok() ? "learned" : std::string(learned.status().message());
  }

  const std::string repository_ = ::testing::TempDir() + "/learn_model_" +
                                  ::testing::UnitTest::GetInstance()->current_test_info()->name();
  LearnOrderOptions options_;
};

TEST_F(LearnModelTest,
       WhatIsLearnedForALatticeIsServedAndBeatsAgendaAndDepthOnRequestsNobodyShowed) {
  Write("latticegru");
  options_.curve = InTemp("curve.svg");
  options_.drawing = InTemp("machine.dot");
  const absl::StatusOr<LearnedOrder> learned = LearnOrder(options_);
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_TRUE(learned->table_is_best);
  EXPECT_EQ(Contents(repository_ + "/latticegru/1/policy.textproto"), learned->text);
  EXPECT_NE(Contents(options_.curve).find("</svg>"), std::string::npos);
  EXPECT_NE(Contents(options_.drawing).find("run character"), std::string::npos);
  const absl::StatusOr<ModelVersion> version =
      LoadVersion(repository_ + "/latticegru", "latticegru", 1, ModelId(0), {});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->policy.kind, PolicyKind::kFsm);
  const auto policy = MakePolicy(version->policy, version->model->types.size());
  ASSERT_TRUE(policy.ok()) << policy.status();
  const TypedGraph graph = UnfoldZoo("latticegru").Batch(0, 32);
  const GraphFacts facts(graph);
  const ReplayReport fsm = RunClosed(facts, **policy);
  EXPECT_EQ(FaultOf(graph, fsm.schedule), "");
  EXPECT_LT(fsm.batches, RunClosed(facts, AgendaPolicy(AgendaMean::kWholeGraph)).batches);
  EXPECT_LT(fsm.batches, RunClosed(facts, DepthPolicy()).batches);
}

TEST_F(LearnModelTest, APictureThatCannotBeWrittenIsNamedAndLeavesThePolicyAsItWas) {
  Write("latticegru");
  options_.curve = InTemp("nowhere/curve.svg");
  EXPECT_EQ(Refused(), options_.curve + " cannot be written: No such file or directory");
  options_.curve = repository_;
  EXPECT_EQ(Refused(), repository_ + " cannot be written: Is a directory");
  EXPECT_EQ(Contents(repository_ + ".new"), "") << "nothing is left beside it";
  EXPECT_EQ(Contents(InTemp("latticegru/1/policy.textproto")), "") << "none was there";
}

// 40 + 3 b microseconds for every type, as if a device had taken that.
std::string MadeUpCosts(const Model& model) {
  MeasuredCosts costs;
  std::vector<TypeCosts> types(model.types.size());
  for (TypeCosts& type : types) {
    type.max_batch = 32;
    for (const int32_t b : {1, 2, 32}) type.points.push_back({b, 40'000 + b * 3'000});
  }
  costs.alone = *TaskCosts::Of(std::move(types));
  costs.served.assign(model.types.size(), 1.1);
  costs.task_overhead_ns = 2'500;
  costs.origin = "made up";
  return CostsText(costs, model);
}

TEST_F(LearnModelTest, WhatIsLearnedForLatencySaysSoIsServedAndIsTheSameForTheSameSeed) {
  Write("latticegru");
  LearnServingOptions options;
  options.order = options_;
  options.load = 0.7;
  options.tail_weight = 0.25;
  options.costs = InTemp("costs.textproto");
  options.most_nodes = 500'000;
  const auto before = LoadVersion(repository_ + "/latticegru", "latticegru", 1, ModelId(0), {});
  ASSERT_TRUE(before.ok()) << before.status();
  std::ofstream(options.costs) << MadeUpCosts(*before->model);
  options.order.curve = InTemp("curve.svg");
  const absl::StatusOr<LearnedOrder> learned = LearnServing(options);
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_EQ(Contents(repository_ + "/latticegru/1/policy.textproto"), learned->text);
  EXPECT_NE(Contents(options.order.curve).find("</svg>"), std::string::npos);
  EXPECT_NE(learned->summary.find("0.75 mean + 0.25 p99 at 70 % load"), std::string::npos)
      << learned->summary;
  const auto after = LoadVersion(repository_ + "/latticegru", "latticegru", 1, ModelId(0), {});
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->policy.kind == PolicyKind::kFsm, learned->table_is_best);
  EXPECT_NE(
      after->policy.about.find("for latency at 70 % load (0.75 mean + 0.25 p99), costs made up"),
      std::string::npos)
      << after->policy.about;
  EXPECT_EQ(LearnServing(options)->text, learned->text);
}

TEST_F(LearnModelTest, WhatLatencyCannotBeLearnedWithIsRefusedByName) {
  Write("latticegru");
  LearnServingOptions options;
  options.order = options_;
  const auto refused = [&] { return std::string(LearnServing(options).status().message()); };
  options.load = 1.2;
  EXPECT_EQ(refused(), "--load is 120%, allowed is more than 0% and less than 100%");
  options.load = 0.5;
  options.tail_weight = 2;
  EXPECT_EQ(refused(), "--tail-weight is 2, allowed are 0 to 1");
  options.tail_weight = 1;
  options.costs = InTemp("nothing.textproto");
  EXPECT_NE(refused().find("nothing.textproto"), std::string::npos) << refused();
  options.costs = InTemp("costs.textproto");
  std::ofstream(options.costs) << "types { name: \"leaf\" }";
  EXPECT_EQ(refused(), options.costs + ": costs of 1 cell types, the model has 5");
}

TEST_F(LearnModelTest, EveryModelOfTheZooWithMoreThanOneTypeLearnsAnOrderFromMadeUpRequests) {
  for (const std::string_view name : zoo::WorkloadNames()) {
    Write(std::string(name));
    if (name == "lstm") {
      EXPECT_EQ(Refused(), "lstm has one cell type: there is no order to learn");
      continue;
    }
    const absl::StatusOr<LearnedOrder> learned = LearnOrder(options_);
    ASSERT_TRUE(learned.ok()) << name << ": " << learned.status();
    const auto version =
        LoadVersion(repository_ + "/" + options_.model, options_.model, 1, ModelId(0), {});
    EXPECT_TRUE(version.ok()) << name << ": " << version.status();
  }
}

TEST_F(LearnModelTest, AModelWithBoundsLearnsFromMadeUpRequestsThatKeepThem) {
  Write("nmt");
  ChangeConfig("max_decode_steps: 200", "max_decode_steps: 20");
  EXPECT_EQ(Refused(), "learned") << "words to write";
  Write("bilstm_tagger_char");
  ChangeConfig("chain {", "max_sequence_length: 10 chain {");
  EXPECT_EQ(Refused(), "learned") << "words";
  Write("latticegru");
  ChangeConfig("lattice {", "max_sequence_length: 30 lattice {");
  EXPECT_EQ(Refused(), "learned") << "characters";
  Write("treelstm");
  ChangeConfig("tree {", "max_nodes: 30 tree {");
  EXPECT_EQ(Refused(), "learned") << "cells";
  ChangeConfig("max_nodes: 30", "max_nodes: 1");
  EXPECT_NE(Refused().find("the model takes 1"), std::string::npos) << Refused();
}

TEST_F(LearnModelTest, TreesWhoseNodesHaveWordsOfTheirOwnAreMadeUpOrReadAsHeads) {
  Write("childsum");
  ChangeConfig(
      "cell_types {\n  name: \"words\"\n  cell: \"embed\"\n"
      "  parameters { name: \"table\" tensors: \"embedding\" }\n}\n",
      "");
  ChangeConfig("embedding: \"words\"", "");
  const std::string reads =
      " reads { input: \"x\" through: \"embed\" } "
      "parameters { name: \"embed/table\" tensors: \"embedding\" }";
  for (const std::string cell : {"\"treelstm_childsum\"", "\"treelstm_childsum_edge\""}) {
    ChangeConfig(cell, cell + reads);
  }
  const absl::StatusOr<LearnedOrder> made_up = LearnOrder(options_);
  ASSERT_TRUE(made_up.ok()) << made_up.status();
  EXPECT_NE(made_up->text.find("made-up requests (tree of heads)"), std::string::npos)
      << made_up->text;
  options_.requests = InTemp("heads.txt");
  std::ofstream(options_.requests) << "2 0 2\n0 1 1 2\n";
  EXPECT_EQ(Refused(), "learned");
  std::ofstream(options_.requests, std::ios::app) << "2 0 9\n";
  EXPECT_NE(Refused().find("heads.txt:3: \"2 0 9\" is no tree of heads"), std::string::npos)
      << Refused();
}

TEST_F(LearnModelTest, TheSameSeedWritesTheSameBytesOverWhatWasThere) {
  Write("treelstm_2type");
  const absl::StatusOr<LearnedOrder> one = LearnOrder(options_);
  ASSERT_TRUE(one.ok()) << one.status();
  std::ofstream(one->file) << "stale";
  const absl::StatusOr<LearnedOrder> two = LearnOrder(options_);
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(one->text, two->text);
  EXPECT_EQ(Contents(one->file), one->text);
}

TEST_F(LearnModelTest, RequestsComeFromAFileALineEachAndABadLineIsNamed) {
  Write("treelstm");
  options_.requests = InTemp("trees.ptb");
  std::ofstream file(options_.requests);
  for (int i = 0; i < 4; ++i) file << "(3 (2 It) (4 (2 's) (2 .)))\n";
  file.close();
  const absl::StatusOr<LearnedOrder> learned = LearnOrder(options_);
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_NE(learned->text.find("requests: \"trees.ptb\""), std::string::npos) << learned->text;
  EXPECT_NE(learned->text.find("num_requests: 2"), std::string::npos) << learned->text;
  std::ofstream(options_.requests, std::ios::app) << "(3 (2 It)\n";
  EXPECT_NE(Refused().find("trees.ptb:5: \"(3 (2 It)\" is no binary tree"), std::string::npos)
      << Refused();
  options_.requests = InTemp("nowhere");
  EXPECT_NE(Refused().find("nowhere"), std::string::npos) << Refused();
}

}  // namespace
}  // namespace cellbatch::ordering
