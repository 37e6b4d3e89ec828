#include "server/kserve/kserve_service.h"

#include <map>
#include <utility>

#include "cells/unfold/unfolder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/kserve/infer_call.h"
#include "server/requests/responder.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/fake_transport.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

class KServeTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name, std::string_view) {
    if (name == "cold") return absl::UnavailableError("model \"cold\" is loading");
    if (name != "tiny") return absl::NotFoundError("unknown model");
    return model_;
  }
  FindModel Finder() {
    return [this](std::string_view name, std::string_view version) { return Find(name, version); };
  }

  SteadyClock clock_;
  std::shared_ptr<const Model> model_ = TinyModel("tiny", 3);
  FakeScheduler scheduler_;
  Admission admission_{{}};
  StatsRegistry stats_{2};
  Lifecycle lifecycle_;
  RequestPath path_{{.latency_samples = 1024}, Finder(), scheduler_, admission_, stats_, clock_};
  InferService infer_{path_};
  std::vector<IndexEntry> index_ = {{"cold", "1", "LOADING", ""},
                                    {"broken", "", "UNAVAILABLE", "no weights"},
                                    {"tiny", "3", "READY", ""}};
  KServeService kserve_{Finder(), [this] { return index_; }, scheduler_, stats_, lifecycle_};
};

TEST_F(KServeTest, ReadyIsWhatTheLifecycleSays) {
  inference::ModelReadyRequest request;
  request.set_name("tiny");
  EXPECT_TRUE(kserve_.ServerLive().live());
  EXPECT_FALSE(kserve_.ServerReady().ready());
  EXPECT_FALSE(kserve_.ModelReady(request)->ready());
  lifecycle_.Serve();
  EXPECT_TRUE(kserve_.ServerReady().ready());
  EXPECT_TRUE(kserve_.ModelReady(request)->ready());
  request.set_name("cold");
  EXPECT_FALSE(kserve_.ModelReady(request)->ready());
  request.set_name("nobody");
  EXPECT_EQ(kserve_.ModelReady(request).status().code(), absl::StatusCode::kNotFound);
  request.set_name("tiny");
  request.set_version("007");
  EXPECT_EQ(kserve_.ModelReady(request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(KServeTest, AModelIsReadyWhileADeviceThatItLivesOnIsLeft) {
  lifecycle_.Serve();
  std::shared_ptr<Model> model = TinyModel("tiny", 3);
  model->devices.cpu = false;
  model_ = model;
  inference::ModelReadyRequest request;
  request.set_name("tiny");
  scheduler_.fake_stats.devices = {{.name = "cuda:0", .details = {}, .kind = DeviceKind::kGpu},
                                   {.name = "cuda:1", .details = {}, .kind = DeviceKind::kGpu},
                                   {.name = "cpu:0", .details = {}, .kind = DeviceKind::kCpu}};
  EXPECT_TRUE(kserve_.ModelReady(request)->ready());
  scheduler_.fake_stats.devices[0].healthy = false;
  EXPECT_TRUE(kserve_.ModelReady(request)->ready());
  scheduler_.fake_stats.devices[1].healthy = false;
  EXPECT_FALSE(kserve_.ModelReady(request)->ready());
}

TEST_F(KServeTest, MetadataAndConfigurationAgreeOnTensorsAndHaveNoBatchDimension) {
  inference::ModelMetadataRequest request;
  request.set_name("tiny");
  index_.push_back({"tiny", "4", "READY", ""});
  index_.push_back({"tiny", "5", "UNAVAILABLE", "no weights"});
  index_.push_back({"other", "6", "READY", ""});
  auto model =
      std::make_shared<Model>(*model_);  // and with what is asked for by those alone who know of it
  model->signature.inputs[0].optional = true;
  model->signature.inputs.push_back(
      {.name = "HIDDEN", .dims = {1}, .optional = true, .listed = false});
  model->signature.outputs.push_back({.name = "HIDDEN", .dims = {1}, .listed = false});
  model->types[0].min_batch = 5;
  model->types[0].priority = 6;
  model_ = model;
  const auto metadata = kserve_.ModelMetadata(request);
  ASSERT_TRUE(metadata.ok());
  EXPECT_THAT(metadata->versions(), ::testing::ElementsAre("3", "4")) << "all that answer";
  ASSERT_EQ(metadata->inputs_size(), 1);
  EXPECT_EQ(metadata->inputs(0).name(), "TOKENS");
  EXPECT_EQ(metadata->inputs(0).datatype(), "INT32");
  EXPECT_EQ(metadata->inputs(0).shape(0), -1);
  ASSERT_EQ(metadata->outputs_size(), 1);
  EXPECT_EQ(metadata->outputs(0).name(), "OUTPUT");

  scheduler_.calibration = {
      {.memory = 0, .type = CellTypeId(0), .max_batch = 64, .peak_batch = 80, .points = {}},
      {.memory = 1, .type = CellTypeId(0), .max_batch = 512, .peak_batch = 512, .points = {}},
      {.memory = 0, .type = CellTypeId(1), .max_batch = 2, .peak_batch = 2, .points = {}}};
  LaneStats lane;
  lane.model = model_->id;
  lane.policy = "fsm";
  lane.policy_about = "learned from trees";
  lane.join = "whole_graphs of 64";
  LaneStats of_another = lane;
  of_another.model = ModelId(77);
  of_another.policy = "fifo";
  scheduler_.fake_stats.lanes = {lane, of_another};
  inference::ModelConfigRequest config_request;
  config_request.set_name("tiny");
  const auto answer = kserve_.ModelConfig(config_request);
  ASSERT_TRUE(answer.ok());
  const inference::ModelConfig& config = answer->config();
  EXPECT_EQ(config.max_batch_size(), 0);
  EXPECT_TRUE(config.has_dynamic_batching());
  EXPECT_EQ(config.dynamic_batching().priority_levels(), 0u);
  EXPECT_FALSE(config.has_sequence_batching());
  ASSERT_EQ(config.input_size(), 1);
  ASSERT_EQ(config.output_size(), 1);
  EXPECT_TRUE(config.input(0).optional());
  EXPECT_EQ(config.output(0).dims(0), 2);
  EXPECT_EQ(config.input(0).name(), "TOKENS");
  EXPECT_EQ(config.input(0).data_type(), inference::TYPE_INT32);
  EXPECT_EQ(config.parameters().at("vocabulary_size").string_value(), "100");
  const auto of_cell = [&](const inference::ModelConfig& from, const char* what) {
    return from.parameters().at("cell." + model_->types[0].name + what).string_value();
  };
  EXPECT_EQ(of_cell(config, ".b_max"), "64");
  EXPECT_EQ(of_cell(config, ".b_peak"), "80");
  EXPECT_EQ(of_cell(config, ".min_batch"), "5");
  EXPECT_EQ(of_cell(config, ".priority"), "6");
  EXPECT_EQ(config.parameters().at("policy").string_value(), "fsm");
  EXPECT_EQ(config.parameters().at("policy.about").string_value(), "learned from trees");
  EXPECT_EQ(config.parameters().at("join").string_value(), "whole_graphs of 64");
  scheduler_.calibration.clear();
  scheduler_.fake_stats.lanes[0].policy_about = "";
  const inference::ModelConfig before = kserve_.ModelConfig(config_request)->config();
  EXPECT_EQ(of_cell(before, ".b_max"), std::to_string(model_->types[0].max_batch));
  EXPECT_EQ(before.parameters().count("policy.about"), 0u) << "of one that says nothing of itself";
}

TEST_F(KServeTest, TheConfigurationNamesPriorityLevelsWhereThereAreAny) {
  auto model = std::make_shared<Model>(*model_);
  model->priority_levels = 3;
  model->default_priority_level = 2;
  model_ = model;
  inference::ModelConfigRequest request;
  request.set_name("tiny");
  const auto answer = kserve_.ModelConfig(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->config().dynamic_batching().priority_levels(), 3u);
  EXPECT_EQ(answer->config().dynamic_batching().default_priority_level(), 2u);
}

TEST_F(KServeTest, ToolsHearOfSequencesWhereStatesAreKeptAndTheModelAsksForThem) {
  auto model = std::make_shared<Model>(*model_);
  inference::ModelConfigRequest request;
  request.set_name("tiny");
  const auto config = [&] { return kserve_.ModelConfig(request)->config(); };
  const auto extensions = [&] { return kserve_.ServerMetadata().extensions(); };
  model->asks_for_sequences = true;
  model_ = model;
  EXPECT_FALSE(config().has_sequence_batching()) << "this server keeps none";
  EXPECT_THAT(extensions(), ::testing::Not(::testing::Contains("sequence")));
  kserve_.KeepSequences(std::chrono::seconds(2));
  EXPECT_EQ(config().sequence_batching().max_sequence_idle_microseconds(), 2'000'000u);
  EXPECT_FALSE(config().has_dynamic_batching()) << "one of the two";
  EXPECT_THAT(extensions(), ::testing::IsSupersetOf({"sequence", "sequence(string_id)"}));
  model->asks_for_sequences = false;
  EXPECT_FALSE(config().has_sequence_batching());
}

// Says what no shipped unfolder says at once.
class DescribingUnfolder final : public Unfolder {
 public:
  absl::Status Unfold(const RequestInput&, CellGraph&) const override { return absl::OkStatus(); }
  RequestDescription Describe() const override {
    RequestDescription described{.inputs = {{.name = "WORDS", .num_ids = 40, .max_rows = 7}},
                                 .max_nodes = 900,
                                 .max_decode_steps = 12,
                                 .max_children = 3,
                                 .output_type = 1};
    described.node_types = {{"leaf", {{.name = "leaf.x", .brought = true}}},
                            {"node",
                             {{.name = "node.left", .reads = {0, 1}},
                              {.name = "node.all", .sums = true, .reads = {0}}}}};
    return described;
  }
};

TEST_F(KServeTest, TheConfigurationSaysWhatARequestMayBring) {
  auto model = std::make_shared<Model>(*model_);
  model->unfolder = std::make_shared<DescribingUnfolder>();
  model->signature.inputs = {
      {.name = "NODE_TYPES", .type = WireType::kInt32, .dims = {-1}},
      {.name = "WORDS", .type = WireType::kInt32, .dims = {-1, 3}, .listed = false}};
  model_ = model;
  inference::ModelConfigRequest request;
  request.set_name("tiny");
  const auto answer = kserve_.ModelConfig(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->config().input_size(), 1) << "tools send all that they see";
  std::map<std::string, std::string> said;
  for (const auto& [key, value] : answer->config().parameters()) said[key] = value.string_value();
  const std::pair<const char*, const char*> expected[] = {
      {"input.WORDS.datatype", "INT32"}, {"input.WORDS.dims", "-1,3"},
      {"input.WORDS.ids", "40"},         {"input.WORDS.max_rows", "7"},
      {"input.NODE_TYPES.ids", "0"},     {"max_nodes", "900"},
      {"max_decode_steps", "12"},        {"max_children", "3"},
      {"graph.output_type", "1"},        {"graph.0", "leaf"},
      {"graph.0.0", "leaf.x=request"},   {"graph.1.0", "node.left=0,1"},
      {"graph.1.1", "node.all=+0"}};
  for (const auto& [key, value] : expected) EXPECT_EQ(said[key], value) << key;
}

TEST_F(KServeTest, StatisticsCountEveryPhaseOfARequestTogether) {
  for (int i = 0; i < 3; ++i) {
    FakeCall call(TokensRequest({1, 2}).SerializeAsString(), clock_.NowNs());
    call.StartOn(infer_);
    scheduler_.FinishAll(i < 2 ? absl::OkStatus() : absl::InternalError("broken"));
    Responder::Step(scheduler_, path_, 0);
    call.Wait();
  }
  LaneStats lane;
  lane.model = model_->id;
  lane.types.resize(2);
  lane.types[0].tasks = 4;
  lane.types[1].tasks = 3;
  scheduler_.fake_stats.lanes = {lane};
  const auto answer = kserve_.ModelStatistics({});
  ASSERT_TRUE(answer.ok());
  ASSERT_EQ(answer->model_stats_size(), 1);
  const inference::ModelStatistics& stats = answer->model_stats(0);
  EXPECT_EQ(stats.version(), "3");
  EXPECT_EQ(stats.inference_count(), 2u);
  EXPECT_EQ(stats.execution_count(), 7u);
  EXPECT_GT(stats.last_inference(), 0u);
  const inference::InferStatistics& sums = stats.inference_stats();
  EXPECT_EQ(sums.success().count(), 2u);
  EXPECT_EQ(sums.fail().count(), 1u);
  EXPECT_EQ(sums.compute_input().count(), 2u);
  EXPECT_EQ(sums.compute_infer().count(), 2u);
  EXPECT_EQ(sums.compute_output().count(), 2u);
  EXPECT_EQ(sums.compute_infer().ns(), 40u);
  EXPECT_EQ(sums.queue().ns(), 20u);
  EXPECT_TRUE(sums.has_cache_hit() && sums.has_cache_miss());
  EXPECT_EQ(sums.cache_hit().count() + sums.cache_miss().count(), 0u);
}

// Of all cell types, and of lanes that have ended as well as of those that serve.
TEST_F(KServeTest, StatisticsCountTasksOfEveryBatchSizeAndTheirTimes) {
  const auto ran = [](CellTypeStats& type, int64_t size, uint64_t tasks, int64_t ns) {
    type.tasks += tasks;
    type.batch_size.buckets[static_cast<size_t>(BucketOf(size))] += tasks;
    type.batch_ns[static_cast<size_t>(BatchBucketOf(size))] += ns;
  };
  LaneStats ended, serving;
  ended.model = serving.model = model_->id;
  ended.types.resize(1);
  ended.types[0].name = "lstm";
  ran(ended.types[0], 1, 5, 50);
  serving.types.resize(2);
  ran(serving.types[0], 1, 2, 20);
  ran(serving.types[0], 64, 1, 900);
  ran(serving.types[1], 3, 4, 400);
  stats_.Of(*model_);
  stats_.LaneEnded(ended);
  LaneStats of_another = serving;
  of_another.model = ModelId(77);
  scheduler_.fake_stats.lanes = {serving, of_another};
  const auto answer = kserve_.ModelStatistics({});
  ASSERT_TRUE(answer.ok());
  const inference::ModelStatistics& stats = answer->model_stats(0);
  EXPECT_EQ(stats.execution_count(), 12u);
  ASSERT_EQ(stats.batch_stats_size(), 3);
  const uint64_t expected[][3] = {{1, 7, 70}, {3, 4, 400}, {64, 1, 900}};
  for (int i = 0; i < 3; ++i) {
    const inference::InferBatchStatistics& batch = stats.batch_stats(i);
    EXPECT_EQ(batch.batch_size(), expected[i][0]);
    EXPECT_EQ(batch.compute_infer().count(), expected[i][1]);
    EXPECT_EQ(batch.compute_infer().ns(), expected[i][2]);
    EXPECT_EQ(batch.compute_input().count(), expected[i][1]);
    EXPECT_EQ(batch.compute_output().ns(), 0u);
  }
}

TEST_F(KServeTest, TheIndexListsEveryModelOrOnlyTheReadyOnes) {
  inference::RepositoryIndexRequest request;
  EXPECT_EQ(kserve_.RepositoryIndex(request).models_size(), 3);
  EXPECT_EQ(kserve_.RepositoryIndex(request).models(1).reason(), "no weights");
  request.set_ready(true);
  ASSERT_EQ(kserve_.RepositoryIndex(request).models_size(), 1);
  EXPECT_EQ(kserve_.RepositoryIndex(request).models(0).name(), "tiny");
}

// A message of proto3 with another text in it is read by nobody, and with it the index of all the other models.
TEST_F(KServeTest, WhatIsNoUtf8InTheIndexHasEscapes) {
  index_ = {{"a\xff", "1", "UNAVAILABLE", "line 3: \xfe"}, {"\u00fc", "1", "READY", ""}};
  const auto index = kserve_.RepositoryIndex({});
  ASSERT_EQ(index.models_size(), 2);
  EXPECT_EQ(index.models(0).name(), "a\\377");
  EXPECT_EQ(index.models(0).reason(), "line 3: \\376");
  EXPECT_EQ(index.models(1).name(), "\u00fc");
}

TEST_F(KServeTest, TheIndexForATokenHasTheModelsOfItsEntryAlone) {
  AccessUse use("search");
  const Access some({.models = {"tiny"}}, use), other({.models = {"nobody"}}, use), every({}, use);
  const auto index = kserve_.RepositoryIndex({}, &some);
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_EQ(index.models(0).name(), "tiny");
  EXPECT_EQ(kserve_.RepositoryIndex({}, &other).models_size(), 0);
  EXPECT_EQ(kserve_.RepositoryIndex({}, &every).models_size(), 3);
}

// What clients ask for, as whoever makes changes hears it; and their answers, which come when the test says so.
class KServeChangeTest : public KServeTest {
 protected:
  absl::Status Load(const inference::RepositoryModelLoadRequest& request) {
    absl::Status told = absl::UnknownError("nothing yet");
    kserve_.RepositoryModelLoad(request, [&](const absl::Status& status) { told = status; });
    return told;
  }
  absl::Status Unload(const inference::RepositoryModelUnloadRequest& request) {
    absl::Status told = absl::UnknownError("nothing yet");
    kserve_.RepositoryModelUnload(request, [&](const absl::Status& status) { told = status; });
    return told;
  }
  void Serve(const absl::Status& answer) {
    kserve_.ServeChanges(
        [this, answer](ModelChange what, const std::string& name, const ModelChangeDone& done) {
          asked_ += (what == ModelChange::kLoad ? "load " : "unload ") + name + ";";
          done(answer);
        });
  }
  std::string asked_;
};

TEST_F(KServeChangeTest, WithoutAnybodyWhoMakesThemChangesAreUnimplemented) {
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("tiny");
  EXPECT_EQ(Load(load).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Unload({}).code(), absl::StatusCode::kUnimplemented);
}

TEST_F(KServeChangeTest, LoadsAndUnloadsAreHandedOnAndAnswered) {
  Serve(absl::OkStatus());
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("new");
  EXPECT_TRUE(Load(load).ok());
  inference::RepositoryModelUnloadRequest unload;
  unload.set_repository_name("old");  // as the first clients sent it
  (*unload.mutable_parameters())["unload_dependents"].set_bool_param(true);
  EXPECT_TRUE(Unload(unload).ok());
  EXPECT_EQ(asked_, "load new;unload old;");
  Serve(absl::NotFoundError("none of ours"));
  EXPECT_EQ(Load(load), absl::NotFoundError("none of ours"));
}

TEST_F(KServeChangeTest, WhatIsNotTakenIsRefusedByItsName) {
  Serve(absl::OkStatus());
  inference::RepositoryModelLoadRequest load;
  load.set_model_name("new");
  load.set_repository_name("elsewhere");
  EXPECT_EQ(Load(load).message(),
            "repository_name is \"elsewhere\": there is one model repository, leave it empty");
  load.clear_repository_name();
  (*load.mutable_parameters())["config"].set_string_param("{}");
  EXPECT_EQ(Load(load).message(),
            "parameter \"config\" of a load is not taken: a model is what its folder in the "
            "repository says");
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name("new");
  (*unload.mutable_parameters())["force"].set_bool_param(true);
  EXPECT_EQ(Unload(unload).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(asked_, "");
}

// Triton: "If not given returns statistics for all model versions".
TEST_F(KServeTest, StatisticsWithoutAVersionAreOfEveryVersionThatAnswers) {
  const std::shared_ptr<const Model> other = TinyModel("other", 1);
  const std::shared_ptr<const Model> tiny[] = {TinyModel("tiny", 3), TinyModel("tiny", 5)};
  const KServeService kserve(
      [&](std::string_view name,
          std::string_view version) -> absl::StatusOr<std::shared_ptr<const Model>> {
        if (name == "other") return other;
        if (name != "tiny") return absl::NotFoundError("unknown model");
        if (version == "4") return absl::UnavailableError("version 4 is loading");
        return tiny[version == "3" ? 0 : 1];
      },
      [this] { return index_; }, scheduler_, stats_, lifecycle_);
  const auto counted = [&](const std::string& name, const std::string& version) {
    inference::ModelStatisticsRequest request;
    request.set_name(name);
    request.set_version(version);
    std::vector<std::string> found;
    const auto answer = kserve.ModelStatistics(request);
    if (!answer.ok()) return std::vector<std::string>{answer.status().ToString()};
    for (const auto& one : answer->model_stats()) found.push_back(one.name() + one.version());
    return found;
  };
  using ::testing::ElementsAre;
  index_ = {{"other", "1", "READY", ""},
            {"tiny", "3", "READY", ""},
            {"tiny", "4", "LOADING", ""},
            {"tiny", "5", "READY", ""}};
  EXPECT_THAT(counted("tiny", ""), ElementsAre("tiny3", "tiny5"));
  EXPECT_THAT(counted("tiny", "3"), ElementsAre("tiny3"));
  EXPECT_THAT(counted("", ""), ElementsAre("other1", "tiny3", "tiny5"));
  EXPECT_THAT(counted("tiny", "4"), ElementsAre("UNAVAILABLE: version 4 is loading"));
  EXPECT_THAT(counted("nobody", ""), ElementsAre("NOT_FOUND: unknown model"));
  index_.clear();
  EXPECT_THAT(counted("tiny", ""), ElementsAre("tiny5")) << "what is found all the same";
}

// Triton's names; those of its extensions that are not served (shared memory, classification) are not among them.
TEST_F(KServeTest, EveryExtensionThatIsServedIsAnnounced) {
  EXPECT_THAT(kserve_.ServerMetadata().extensions(),
              ::testing::UnorderedElementsAre(
                  "model_configuration", "model_repository", "model_repository(unload_dependents)",
                  "schedule_policy", "binary_tensor_data", "statistics", "trace", "logging"));
}

}  // namespace
}  // namespace cellbatch
