// cellbatch-learn on models whose requests draw their own graphs, and on a user's own unfolder.
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cells/weights/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/learn/learn_order.h"
#include "server/learn/learn_serving.h"
#include "server/learn/measured_costs.h"
#include "server/repository/model_loader.h"
#include "tests/graphs/outside.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

// Leaves of tokens, nodes over two children, outputs.
void WriteGraphs(const std::string& folder, const std::string& phases = "") {
  std::filesystem::create_directories(folder + "/1");
  const std::vector<std::pair<std::string, std::vector<int64_t>>> tensors = {
      {"emb", {10, 3}}, {"W", {12, 3}}, {"U", {12, 8}},
      {"F0", {4, 4}},   {"F1", {4, 4}}, {"fc", {2, 4}}};
  std::vector<std::vector<float>> values;
  for (const auto& [name, dims] : tensors) {
    values.emplace_back(static_cast<size_t>(dims[0] * dims[1]), 0.1f);
  }
  std::vector<SafetensorsSource> sources;
  for (size_t i = 0; i < tensors.size(); ++i) {
    sources.push_back({tensors[i].first, tensors[i].second, values[i]});
  }
  ASSERT_TRUE(WriteSafetensors(folder + "/1/weights.safetensors", sources).ok());
  std::ofstream(folder + "/config.textproto") << R"(
cell_types {
  name: "leaf" cell: "treelstm_leaf"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "W" }
}
cell_types {
  name: "node" cell: "treelstm_internal"
  parameters { name: "U" tensors: "U" }
  parameters { name: "U_f0" tensors: "F0" }
  parameters { name: "U_f1" tensors: "F1" }
}
cell_types {
  name: "out" cell: "linear"
  reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" }
}
dag { types: "leaf" types: "node" types: "out" output_type: "out" )"
                                              << phases << " }\n";
}

std::string LearnError(const LearnOrderOptions& options) {
  const absl::StatusOr<LearnedOrder> learned = LearnOrder(options);
  return learned.ok() ? "learned" : std::string(learned.status().message());
}

// The policy that it wrote loads with the model.
void ExpectServed(const LearnOrderOptions& options) {
  const auto version = LoadVersion(options.repository + "/" + options.model, options.model, 1,
                                   ModelId(0), {.unfolder_libraries = options.unfolder_libraries});
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_NE(version->policy.kind, PolicyKind::kCellular);
}

TEST(LearnGraphsTest, AGraphsOrderIsLearnedFromALineEachOrFromMadeUpOnes) {
  LearnOrderOptions options;
  options.repository = ::testing::TempDir() + "/graphs";
  options.model = "drawn";
  WriteGraphs(options.repository + "/drawn");
  const absl::StatusOr<LearnedOrder> made_up = LearnOrder(options);
  ASSERT_TRUE(made_up.ok()) << made_up.status();
  EXPECT_THAT(made_up->text, HasSubstr("made-up requests (graph)"));
  ExpectServed(options);

  options.requests = options.repository + "/graphs.jsonl";
  std::ofstream file(options.requests);
  for (int i = 0; i < 6; ++i) {
    file << R"({"types":[0,0,1,2,0,1,2],"edges":[[0,2,0],[1,2,1],[2,3,0],[2,5,0],[4,5,1],[5,6,0]]})"
         << "\n";
  }
  file.close();
  const absl::StatusOr<LearnedOrder> read = LearnOrder(options);
  ASSERT_TRUE(read.ok()) << read.status();
  // Leaves, a node and the node above it, all outputs: 1 + 2 + 1, in each of two sets of requests.
  EXPECT_THAT(read->text, HasSubstr("held_out_bound: 8"));
  EXPECT_THAT(read->text, HasSubstr("held_out_batches: 8"));
  EXPECT_THAT(read->text, HasSubstr("\"depth\"\n    value: 10"));
  ExpectServed(options);

  // Rules of thumb are proved as the lane would be told.
  WriteGraphs(options.repository + "/drawn", "phases { key: \"out\" value: 1 }");
  const absl::StatusOr<LearnedOrder> told = LearnOrder(options);
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_THAT(told->text, HasSubstr("\"depth\"\n    value: 8"));

  std::ofstream(options.requests, std::ios::app) << R"({"types":[0,1],"edges":[[0,1,7]]})"
                                                 << "\n";
  EXPECT_THAT(LearnError(options), HasSubstr("graphs.jsonl, request 7: input EDGES: edge 0 leads "
                                             "to input 7 of node 1"));
}

// A server would not read the file, or not load the model for it.
TEST(LearnGraphsTest, WhereNoPolicyFileWouldDecideNothingIsLearnedNorWritten) {
  LearnOrderOptions options;
  options.repository = ::testing::TempDir() + "/decided";
  options.model = "drawn";
  const std::string folder = options.repository + "/drawn";
  const auto refused = [&](const std::string& more) {
    WriteGraphs(folder);
    std::ofstream(folder + "/config.textproto", std::ios::app) << more << "\n";
    const absl::StatusOr<LearnedOrder> learned = LearnOrder(options);
    EXPECT_EQ(learned.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(std::filesystem::exists(folder + "/1/policy.textproto"));
    return std::string(learned.status().message());
  };
  EXPECT_THAT(refused("policy { kind: DEPTH }"),
              HasSubstr("config.textproto:20: policy.kind is DEPTH, which reads no "
                        "policy.textproto: say LEARNED, or leave the policy out"));
  for (const char* kind : {"FSM", "LEARNED"}) {
    WriteGraphs(folder);
    std::ofstream(folder + "/config.textproto", std::ios::app)
        << "policy { kind: " << kind << " }\n";
    const absl::Status fsm = CheckPolicyFileDecides(folder, PolicyKind::kFsm, {});
    EXPECT_TRUE(fsm.ok()) << fsm;
    const absl::Status other = CheckPolicyFileDecides(folder, PolicyKind::kLbGreedy, {});
    EXPECT_EQ(other.ok(), std::string(kind) == "LEARNED") << other;
    if (other.ok()) continue;
    EXPECT_THAT(std::string(other.message()),
                HasSubstr("policy.kind is FSM, and the file's is lb_greedy: say LEARNED"));
  }
  std::ofstream(folder + "/config.textproto")
      << "chain {}\njoin { whole_graphs { most: 8 padding: TO_THE_LONGEST } }\n";
  const absl::Status padded = CheckPolicyFileDecides(folder, PolicyKind::kFsm, {});
  EXPECT_EQ(padded.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(padded.message()),
      HasSubstr("config.textproto:2: join.whole_graphs.padding: the model's policy is fsm"));
  EXPECT_TRUE(CheckPolicyFileDecides(folder, PolicyKind::kCellular, {}).ok());
}

// Of made-up requests, of learning, and in what is written.
TEST(LearnGraphsTest, TheSeedIsThatOfAllThatIsDrawn) {
  LearnOrderOptions options;
  options.repository = ::testing::TempDir() + "/seeds";
  options.model = "drawn";
  WriteGraphs(options.repository + "/drawn");
  const auto learned = [&](uint64_t seed, std::vector<std::string>& said) {
    options.seed = seed;
    options.say = [&](std::string_view line) { said.emplace_back(line); };
    const absl::StatusOr<LearnedOrder> order = LearnOrder(options);
    EXPECT_TRUE(order.ok()) << order.status();
    return order.ok() ? order->text : "";
  };
  const auto nodes = [](const std::string& text) {
    const size_t at = text.find("  nodes: ");
    EXPECT_NE(at, std::string::npos) << text;
    return text.substr(at, text.find('\n', at) - at);
  };
  std::vector<std::string> said_one, said_seven;
  const std::string one = learned(1, said_one), seven = learned(7, said_seven);
  EXPECT_THAT(one, HasSubstr("  seed: 1\n"));
  EXPECT_THAT(seven, HasSubstr("  seed: 7\n"));
  EXPECT_NE(nodes(one), nodes(seven)) << "other requests were made up";
  EXPECT_THAT(said_seven, ::testing::Contains(HasSubstr("fsm base, clipped seed 7 ")));
  EXPECT_THAT(said_seven, ::testing::Not(::testing::Contains(HasSubstr("seed 1 "))));
  EXPECT_THAT(one, ::testing::Not(HasSubstr("key: \"fsm"))) << "tables are none of the others";
  EXPECT_EQ(learned(7, said_seven), seven);
}

// What tasks take, 40 + 3 b microseconds, where they take so many times as long served.
std::string Costs(const Model& model, double served, int64_t wake_ns) {
  MeasuredCosts costs;
  std::vector<TypeCosts> types(model.types.size());
  for (TypeCosts& type : types) {
    type.max_batch = 32;
    for (const int32_t b : {1, 2, 32}) type.points.push_back({b, 40'000 + b * 3'000});
  }
  costs.alone = *TaskCosts::Of(std::move(types));
  costs.served.assign(model.types.size(), served);
  costs.wake_ns = wake_ns;
  return CostsText(costs, model);
}

double NumberOf(const std::string& text, const std::string& field) {
  const size_t at = text.find(field + ": ");
  EXPECT_NE(at, std::string::npos) << field << " is not in\n" << text;
  return at == std::string::npos ? 0 : std::stod(text.substr(at + field.size() + 2));
}

TEST(LearnGraphsTest, ForLatencyTheCostsTheLoadAndTheTailThatAreGivenDecide) {
  LearnServingOptions options;
  options.order.repository = ::testing::TempDir() + "/latency";
  options.order.model = "drawn";
  options.costs = options.order.repository + "/costs.textproto";
  options.most_nodes = 50'000;
  WriteGraphs(options.order.repository + "/drawn");
  const auto model = LoadVersion(options.order.repository + "/drawn", "drawn", 1, ModelId(0), {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto learned = [&](double served, int64_t wake_ns) {
    std::ofstream(options.costs) << Costs(*model->model, served, wake_ns);
    const absl::StatusOr<LearnedOrder> order = LearnServing(options);
    EXPECT_TRUE(order.ok()) << order.status();
    return order.ok() ? order->text : "";
  };
  const std::string usual = learned(1, 0);
  EXPECT_THAT(usual, HasSubstr("key: \"cellular\""));
  const double mean_us = NumberOf(usual, "held_out_mean_us");
  EXPECT_GT(NumberOf(usual, "held_out_p99_us"), mean_us);
  EXPECT_NEAR(NumberOf(learned(4, 0), "held_out_mean_us"), 4 * mean_us, 0.5 * mean_us);
  EXPECT_GT(NumberOf(learned(1, 50'000'000), "held_out_mean_us"), 5'000 + mean_us);
  options.tail_weight = 0;
  const std::string mean = learned(1, 0);
  EXPECT_DOUBLE_EQ(NumberOf(mean, "held_out_objective_us"), NumberOf(mean, "held_out_mean_us"));
  options.load = 0.2;
  EXPECT_NEAR(NumberOf(learned(1, 0), "requests_per_s"), NumberOf(usual, "requests_per_s") / 3,
              1e-6 * NumberOf(usual, "requests_per_s"));
  options.order.drawing = options.order.repository + "/machine.dot";
  EXPECT_EQ(std::string(LearnServing(options).status().message()),
            "--drawing is of orders learned for the fewest batches");
}

TEST(LearnGraphsTest, AUsersOwnUnfolderIsLearnedFromItsRequestsTensors) {
  const std::string prefix = InstallHeaders();
  const DilatedModel dilated(prefix, prefix + "/model");
  LearnOrderOptions options;
  options.repository = prefix;
  options.model = "model";
  EXPECT_THAT(LearnError(options), HasSubstr("(--unfolder-libraries)"));
  options.unfolder_libraries = true;
  EXPECT_THAT(LearnError(options), HasSubstr("are not made up (--requests)"));
  options.requests = prefix + "/requests.jsonl";
  std::ofstream file(options.requests);
  for (const int words : {5, 9, 14, 7, 11, 3})
    file << "{\"TOKENS\":{\"dims\":[" << words << "]}}\n";
  file << R"({"TOKENS":[1,2,3]})"
       << "\n"
       << R"({"TOKENS":[4,49]})"
       << "\n";
  file.close();
  const absl::StatusOr<LearnedOrder> learned = LearnOrder(options);
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_THAT(learned->text, HasSubstr("num_requests: 4"));
  ExpectServed(options);
  std::ofstream(options.requests, std::ios::app) << R"({"WORDS":[1]})"
                                                 << "\n";
  EXPECT_THAT(LearnError(options), HasSubstr("request 9: model has no input WORDS of numbers"));
}

}  // namespace
}  // namespace cellbatch
