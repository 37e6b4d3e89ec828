#include "server/repository/model_loader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <string>
#include <thread>

#include "cells/weights/safetensors.h"
#include "server/policy/policy_codec.h"
#include "server/repository/text_file.h"
#include "tests/testing/few_files.h"

namespace cellbatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// A folder with a two-layer tagger: bidirectional GRU below, LSTM above, a head; tokens.
class ModelLoaderTest : public ::testing::Test {
 protected:
  static constexpr int64_t kV = 20, kD = 5, kH = 3, kTop = 4, kC = 2;

  ModelLoaderTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/1");
    Tensor("emb", {kV, kD});
    for (const char* end : {"", "_reverse"}) {
      Tensor(fmt::format("ih0{}", end), {3 * kH, kD});
      Tensor(fmt::format("hh0{}", end), {3 * kH, kH});
      Tensor(fmt::format("bi0{}", end), {3 * kH});
      Tensor(fmt::format("bh0{}", end), {3 * kH});
    }
    Tensor("ih1", {4 * kTop, 2 * kH});
    Tensor("hh1", {4 * kTop, kTop});
    Tensor("bi1", {4 * kTop});
    Tensor("bh1", {4 * kTop});
    Tensor("fc", {kTop, kC});
    config_ = R"(cell_types {
  name: "f" cell: "gru"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "ih0" }
  parameters { name: "U" tensors: "hh0" }
  parameters { name: "b_in" tensors: "bi0" }
  parameters { name: "b_rec" tensors: "bh0" }
}
cell_types {
  name: "b" cell: "gru"
  reads { input: "x" through: "embed" }
  parameters { name: "embed/table" tensors: "emb" }
  parameters { name: "W" tensors: "ih0_reverse" }
  parameters { name: "U" tensors: "hh0_reverse" }
  parameters { name: "b_in" tensors: "bi0_reverse" }
  parameters { name: "b_rec" tensors: "bh0_reverse" }
}
cell_types {
  name: "top" cell: "lstm" priority: 1 max_batch: 64 min_batch: 2
  reads { input: "x" through: "pair" }
  parameters { name: "W" tensors: "ih1" }
  parameters { name: "U" tensors: "hh1" }
  parameters { name: "b" tensors: "bi1" tensors: "bh1" }
}
cell_types {
  name: "head" cell: "linear"
  reads { input: "x" through: "below" }
  parameters { name: "W" tensors: "fc" transposed: true }
}
chain {
  input: TOKENS
  layers { forward: "f" backward: "b" }
  layers { forward: "top" }
  head: "head"
}
)";
  }

  void Tensor(const std::string& name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + name.size());
    tensors_[name] = {shape, values};
  }

  void Write(const std::string& file, std::string_view text) const {
    std::ofstream(folder_ + "/" + file) << text;
  }

  absl::StatusOr<std::shared_ptr<const Model>> Load() {
    Write("config.textproto", config_);
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    EXPECT_TRUE(WriteSafetensors(folder_ + "/1/weights.safetensors", sources).ok());
    return LoadModel(folder_, "tagger", 1, ModelId(7), limits_);
  }
  std::string Error() {
    const auto model = Load();
    if (model.ok()) return "loaded";
    EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(model.status().message());
  }
  // The error after one piece of the config was replaced by another.
  std::string ErrorWith(const std::string& piece, const std::string& other) {
    const std::string before = config_;
    const size_t at = config_.find(piece);
    EXPECT_NE(at, std::string::npos) << piece;
    config_.replace(at, piece.size(), other);
    const std::string error = Error();
    config_ = before;
    return error;
  }

  const std::string folder_ = ::testing::TempDir() + "/tagger";
  std::string config_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
  LoaderLimits limits_;
};

TEST_F(ModelLoaderTest, AFolderBecomesAModel) {
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Model& m = **loaded;
  EXPECT_EQ(m.name, "tagger");
  EXPECT_EQ(m.id, ModelId(7));
  EXPECT_EQ(m.version, 1);
  ASSERT_EQ(m.types.size(), 4u);
  EXPECT_EQ(m.types[0].weights[0].data, m.types[1].weights[0].data) << "one embedding, read once";
  EXPECT_EQ(m.types[0].out, m.types[1].out) << "the same columns share a table";
  EXPECT_EQ(m.types[2].priority, 1);
  EXPECT_EQ(m.types[2].min_batch, 2);
  EXPECT_EQ(m.types[2].max_batch, 64);
  EXPECT_EQ(m.types[0].min_batch, 1);
  const CellType& top = m.types[2];
  EXPECT_FLOAT_EQ(top.weights[2].data[1], (1 + 3) * 2.0f) << "two biases, added";
  EXPECT_EQ(m.types[3].weights[0].shape, Shape::Matrix(kC, kTop)) << "transposed";
  EXPECT_FLOAT_EQ(m.types[3].weights[0].data[1], 2 + 2);
  EXPECT_FLOAT_EQ(m.types[3].weights[1].data[0], 0) << "a bias without a tensor";
  ASSERT_EQ(m.signature.inputs.size(), 2u);
  EXPECT_EQ(m.signature.inputs[0].name, "TOKENS");
  EXPECT_TRUE(m.signature.inputs[1].optional);
  EXPECT_EQ(m.signature.outputs[0].name, "OUTPUT");
  EXPECT_EQ(m.signature.outputs[0].dims, (std::vector<int64_t>{kC}));
  EXPECT_EQ(m.signature.outputs.size(), 2u) << "no FINAL_H over layers of two widths";
  EXPECT_EQ(m.signature.vocabulary_size, kV);
  EXPECT_EQ(m.signature.max_sequence_length, limits_.max_sequence_length);
  EXPECT_NE(m.unfolder, nullptr);
}

TEST_F(ModelLoaderTest, SettingsReachTheModel) {
  config_ += R"(max_sequence_length: 40 weight: 2.5 precision: PRECISION_FP32
                vocabulary { size: 18 out_of_vocabulary: UNKNOWN_WORD unknown_id: 3 }
                optional_outputs: "ALL_HIDDEN" name: "tagger")";
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Signature& s = (*loaded)->signature;
  EXPECT_EQ(s.max_sequence_length, 40);
  EXPECT_EQ(s.vocabulary_size, 18);
  EXPECT_EQ(s.out_of_vocabulary, OutOfVocabulary::kUnknown);
  EXPECT_EQ(s.unknown_token, 3);
  EXPECT_TRUE(s.outputs[1].listed);
  EXPECT_EQ((*loaded)->weight, 2.5);
  EXPECT_EQ((*loaded)->precision, Precision::kFp32);
}

TEST_F(ModelLoaderTest, APrecisionIsThatOfEveryCellType) {
  const std::string config = config_;
  const std::pair<const char*, Precision> named[] = {{"PRECISION_W8", Precision::kW8},
                                                     {"PRECISION_BF16", Precision::kBf16},
                                                     {"PRECISION_TF32", Precision::kTf32},
                                                     {"PRECISION_FP32_SPLIT", Precision::kFp32},
                                                     {"PRECISION_AUTO", Precision::kFp32}};
  for (const auto& [name, precision] : named) {
    config_ = config + " precision: " + name;
    const auto loaded = Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->precision, precision);
    for (const CellType& type : (*loaded)->types) EXPECT_EQ(type.precision, precision);
  }
}

// What is computed is what ModelConfig says.
TEST_F(ModelLoaderTest, Fp32IsSplitWhereCpusDoThatFasterAndTheModelIsOnThem) {
  const std::string config = config_;
  for (const char* name : {"PRECISION_FP32_SPLIT", "PRECISION_AUTO"}) {
    config_ = config + " precision: " + name;
    for (const bool gpu : {false, true}) {
      for (const bool splits : {false, true}) {
        limits_.devices = DeviceKinds{.cpu = true, .gpu = gpu};
        limits_.splits_fp32 = splits;
        const auto loaded = Load();
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        EXPECT_EQ((*loaded)->precision, splits && !gpu ? Precision::kFp32Split : Precision::kFp32)
            << name << (gpu ? " beside GPUs" : "");
      }
    }
  }
}

TEST_F(ModelLoaderTest, AutoIsNotSplitWhereNoTaskIsLarge) {
  limits_.splits_fp32 = true;
  const std::string config = config_;
  const auto precision_of = [&](std::string all_but_top, std::string top) {
    config_ = std::regex_replace(config, std::regex("max_batch: 64"), top);
    for (const char* cell : {"cell: \"gru\"", "cell: \"linear\""}) {
      config_ = std::regex_replace(config_, std::regex(cell), "$& " + all_but_top);
    }
    config_ += " precision: PRECISION_AUTO";
    const auto loaded = Load();
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return loaded.ok() ? (*loaded)->precision : Precision::kW8;
  };
  EXPECT_EQ(precision_of("max_batch: 6", "max_batch: 6"), Precision::kFp32);
  EXPECT_EQ(precision_of("max_batch: 6", "max_batch: 7"), Precision::kFp32Split);
  EXPECT_EQ(precision_of("", "max_batch: 6"), Precision::kFp32Split) << "as large as is best";
}

constexpr DeviceKinds kCpu{.cpu = true, .gpu = false}, kGpu{.cpu = false, .gpu = true}, kBoth;

TEST_F(ModelLoaderTest, Tf32IsWhatGpusHaveAndFp32OnCpusAlone) {
  struct Case {
    const char* says;
    DeviceKinds server;
    Precision computed;
  };
  const std::string config = config_ + " precision: PRECISION_TF32 ";
  for (const Case& c : std::vector<Case>{{"", kCpu, Precision::kFp32},
                                         {"", kGpu, Precision::kTf32},
                                         {"", kBoth, Precision::kTf32},
                                         {"devices: CPU", kBoth, Precision::kFp32},
                                         {"bits: MAY_DIFFER", kBoth, Precision::kTf32}}) {
    SCOPED_TRACE(c.says + std::string(" on ") + Name(c.server));
    config_ = config + c.says;
    limits_.devices = c.server;
    const auto loaded = Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ((*loaded)->precision, c.computed);
  }
}

TEST_F(ModelLoaderTest, AModelLivesWhereItsConfigSaysOnTheDevicesThatThereAre) {
  struct Case {
    const char* says;
    std::optional<DeviceKinds> server;
    DeviceKinds lives_on;
  };
  const std::string config = config_;
  for (const Case& c : std::vector<Case>{
           {"", kCpu, kCpu},
           {"", kGpu, kGpu},
           {"", kBoth, kGpu},
           {"bits: SAME", kBoth, kGpu},
           {"bits: MAY_DIFFER", kBoth, kBoth},
           {"bits: MAY_DIFFER", kCpu, kCpu},
           {"devices: CPU", kBoth, kCpu},
           {"devices: CPU", kCpu, kCpu},
           {"devices: GPU", kBoth, kGpu},
           {"devices: GPU", kGpu, kGpu},
           {"devices: CPU bits: MAY_DIFFER", kBoth, kCpu},
           {"devices: GPU bits: MAY_DIFFER", kBoth, kGpu},
           {"precision: PRECISION_W8", kBoth, kCpu},
           {"precision: PRECISION_W8 bits: MAY_DIFFER", kBoth, kCpu},
           {"precision: PRECISION_W8 devices: CPU", kBoth, kCpu},
           {"precision: PRECISION_BF16", kBoth, kGpu},
           {"", std::nullopt, kBoth},
           {"devices: GPU", std::nullopt, kGpu},
           {"granularity: OPERATOR devices: CPU", kBoth, kCpu},
       }) {
    SCOPED_TRACE(c.says);
    config_ = config + c.says;
    limits_.devices = c.server;
    const auto loaded = Load();
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_STREQ(Name((*loaded)->devices), Name(c.lives_on));
  }
}

TEST_F(ModelLoaderTest, WhereAModelCannotLiveIsSaidWithWhatThereIs) {
  struct Case {
    const char* says;
    DeviceKinds server;
    const char* error;
  };
  const std::string config = config_;
  for (const Case& c : std::vector<Case>{
           {"devices: GPU", kCpu, "devices is GPU, this server computes on CPU (--devices)"},
           {"devices: CPU", kGpu, "devices is CPU, this server computes on GPU (--devices)"},
           {"devices: GPU precision: PRECISION_W8", kBoth,
            "devices is GPU and precision PRECISION_W8: GPUs compute PRECISION_FP32, "
            "PRECISION_TF32 "
            "and PRECISION_BF16"},
           {"precision: PRECISION_W8", kGpu,
            "precision is PRECISION_W8, this server computes on GPU (--devices), and GPUs compute "
            "PRECISION_FP32, PRECISION_TF32 and PRECISION_BF16"},
           {"devices: 7", kBoth, "devices is 7, CPU and GPU are offered"},
           {"devices: TPU", kBoth, "Unknown enumeration value of \"TPU\" for field \"devices\""},
       }) {
    config_ = config + c.says;
    limits_.devices = c.server;
    EXPECT_THAT(Error(), AllOf(HasSubstr("config.textproto:"), HasSubstr(c.error)));
  }
}

TEST_F(ModelLoaderTest, AModelMayBeTakenApartIntoOperators) {
  const auto whole = Load();
  config_ += "granularity: OPERATOR";
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_GT((*loaded)->types.size(), 4 * (*whole)->types.size());
  EXPECT_TRUE((*loaded)->Validate().ok()) << (*loaded)->Validate();
  EXPECT_EQ((*loaded)->signature.outputs[0].dims, (*whole)->signature.outputs[0].dims);
  EXPECT_EQ((*loaded)->name, (*whole)->name);
}

TEST_F(ModelLoaderTest, AModelsOwnCellGoesBeforeTheShippedOneOfItsName) {
  Write("linear.textproto", R"(name: "linear"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
parameters { name: "W" dims: "C" dims: "D" }
ops { name: "product" kind: MATMUL args: "x.x" args: "W" }
ops { name: "y" kind: RELU args: "product" }
outputs { column: "y" value: "y" }
)");
  const auto loaded = Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->types[3].weights.size(), 1u);
  Write("linear.textproto", R"(name: "linear"
inputs { name: "x" columns { name: "x" type: FP32 dims: "D" } }
parameters { name: "W" dims: "C" dims: "D" }
ops { name: "y" kind: RELU args: "z" }
)");
  EXPECT_THAT(Error(), HasSubstr("config.textproto:26: cell type \"head\": linear.textproto:4: "));
}

TEST_F(ModelLoaderTest, EveryProblemIsReportedAtOnce) {
  tensors_.erase("hh0");
  tensors_.erase("bi1");
  tensors_["bh0_reverse"].second[2] = std::nanf("");
  config_ += "max_sequence_length: -1 precision: PRECISION_W8 devices: GPU name: \"tager\"";
  const std::string error = Error();
  EXPECT_THAT(error,
              HasSubstr("config.textproto:1: cell type \"f\": parameter \"U\": tensor \"hh0\" "
                        "is not in the file"));
  EXPECT_THAT(error,
              HasSubstr("cell type \"top\": parameter \"b\": tensor \"bi1\" is not in the file"));
  EXPECT_THAT(error, HasSubstr("tensor \"bh0_reverse\" holds nan at element 2"));
  EXPECT_THAT(error, HasSubstr("max_sequence_length is -1, this server's limit is 65536"));
  EXPECT_THAT(error,
              HasSubstr("devices is GPU and precision PRECISION_W8: GPUs compute PRECISION_FP32, "
                        "PRECISION_TF32 and PRECISION_BF16"));
  EXPECT_THAT(error, HasSubstr("name is \"tager\", the folder is \"tagger\""));
}

TEST_F(ModelLoaderTest, WeightsOfAnotherShapeAreNamedWithBoth) {
  Tensor("hh0", {3 * kH, kH + 1});
  EXPECT_THAT(Error(), HasSubstr("\"U\" is [3*H = 9, H = 3], tensor \"hh0\" is [9, 4]"));
  Tensor("hh0", {3 * kH, kH});
  Tensor("ih1", {4 * kTop, 2 * kH + 1});
  EXPECT_THAT(Error(), AllOf(HasSubstr("cell type \"top\""), HasSubstr("7"), HasSubstr("6")));
}

TEST_F(ModelLoaderTest, MistakesInTheConfigAreNamed) {
  EXPECT_EQ(Error(), "loaded");
  EXPECT_THAT(ErrorWith("cell: \"lstm\"", "cell: \"lstn\""),
              AllOf(HasSubstr("there is no cell \"lstn\""), HasSubstr("lstm")));
  EXPECT_THAT(ErrorWith("cell: \"lstm\"", "cell: \"../lstm\""), HasSubstr("no cell's name"));
  EXPECT_THAT(ErrorWith("cell: \"lstm\"", ""), HasSubstr("names no cell"));
  EXPECT_THAT(ErrorWith("cell: \"lstm\"", "cel: \"lstm\""), HasSubstr("config.textproto:20:"));
  EXPECT_THAT(ErrorWith("forward: \"top\"", "forward: \"tip\""),
              HasSubstr("layers names cell type \"tip\", which is not there"));
  EXPECT_THAT(ErrorWith("forward: \"top\"", "forward: \"f\""), HasSubstr("\"f\" is used twice"));
  EXPECT_THAT(ErrorWith("name: \"b\"", "name: \"f\""), HasSubstr("two cell types are named \"f\""));
  EXPECT_THAT(ErrorWith("head: \"head\"", ""), HasSubstr("cell type \"head\" is not used"));
  EXPECT_THAT(ErrorWith("input: TOKENS", "input: VECTORS"),
              HasSubstr("reads INT32 by input \"token\", the request's X is FP32"));
  EXPECT_THAT(ErrorWith("max_batch: 64", "max_batch: 1"), HasSubstr("min_batch 2 and max_batch 1"));
  EXPECT_THAT(ErrorWith("  head: \"head\"\n}", "head: \"head\" } vocabulary { size: 21 }"),
              HasSubstr("vocabulary size is 21, the embedding has 20 rows"));
  EXPECT_THAT(ErrorWith("chain {", "optional_outputs: \"FINAL_C\" chain {"),
              HasSubstr("the model has no output \"FINAL_C\""));
  EXPECT_THAT(ErrorWith("through: \"pair\"", "through: \"below\""), HasSubstr("cell type \"top\""));
  EXPECT_THAT(ErrorWith("name: \"W\" tensors: \"ih1\"", "name: \"w\" tensors: \"ih1\""),
              HasSubstr("parameter \"W\" of cell \"lstm\" has no tensor"));
  EXPECT_THAT(ErrorWith(config_.substr(config_.find("chain")), ""), HasSubstr("no unfolder"));
}

// Which rule holds: the configuration's choice; without one, the file where there is one; else Algorithm 1.
TEST_F(ModelLoaderTest, ThePolicyIsTheConfigurationsElseTheFilesElseAlgorithm1) {
  const auto loaded = [this] { return LoadVersion(folder_, "tagger", 1, ModelId(7), limits_); };
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(loaded()->policy.kind, PolicyKind::kCellular);
  PolicySpec learned;
  learned.kind = PolicyKind::kLbGreedy;
  Write("1/policy.textproto", PolicyText(ToPolicyFile(learned, **Load())));
  ASSERT_TRUE(loaded().ok()) << loaded().status();
  EXPECT_EQ(loaded()->policy.kind, PolicyKind::kLbGreedy);
  const std::string config = config_;
  config_ = config + "policy { kind: CELLULAR }";
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(loaded()->policy.kind, PolicyKind::kCellular);
  config_ = config + "policy { kind: FSM }";
  EXPECT_THAT(Error(), HasSubstr("1/policy.textproto: kind is LB_GREEDY, the configuration's "
                                 "policy is FSM"));
  config_ = config + "policy { kind: LEARNED }";
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(loaded()->policy.kind, PolicyKind::kLbGreedy);
}

TEST_F(ModelLoaderTest, APolicyThatCannotBeUsedIsAnErrorUnlessTheConfigurationSaysOtherwise) {
  const std::string config = config_;
  config_ = config + "policy { kind: FSM }";
  EXPECT_THAT(Error(), HasSubstr("/1/policy.textproto: no such file"));
  for (const char* damaged : {"", "x: 1", "kind: FSM cell_types: \"f\""}) {
    Write("1/policy.textproto", damaged);
    for (const char* choice : {"", "policy { kind: LEARNED }"}) {
      config_ = config + choice;
      EXPECT_THAT(Error(), HasSubstr("1/policy.textproto:")) << damaged << choice;
    }
    config_ = config + "policy { kind: FSM else_cellular: true }";
    ASSERT_TRUE(Load().ok()) << damaged;
    const auto made = LoadVersion(folder_, "tagger", 1, ModelId(7), limits_);
    EXPECT_EQ(made->policy.kind, PolicyKind::kCellular);
    EXPECT_THAT(made->policy.about, HasSubstr("in place of one that cannot be used: 1/policy"));
  }
  config_ = config + "\npolicy { kind: SUFFICIENT }";
  EXPECT_THAT(Error(), HasSubstr("config.textproto:38: policy SUFFICIENT is for closed workloads"));
  config_ = config + "policy { kind: RANDOM seed: 3 }";
  ASSERT_TRUE(Load().ok()) << "a choice that needs no file reads none, whatever lies there";
  EXPECT_EQ(LoadVersion(folder_, "tagger", 1, ModelId(7), limits_)->policy.seed, 3u);
  config_ = config + "policy { kind: LB_GREEDY taller_first: true }";
  ASSERT_TRUE(Load().ok());
  EXPECT_TRUE(LoadVersion(folder_, "tagger", 1, ModelId(7), limits_)->policy.taller_first);
}

TEST_F(ModelLoaderTest, APolicyForClosedWorkloadsIsServedFromNoFileEither) {
  PolicySpec sufficient;
  sufficient.kind = PolicyKind::kSufficient;
  ASSERT_TRUE(Load().ok());
  Write("1/policy.textproto", PolicyText(ToPolicyFile(sufficient, **Load())));
  EXPECT_THAT(Error(),
              HasSubstr("1/policy.textproto: policy SUFFICIENT is for closed workloads, it is not "
                        "served"));
}

TEST_F(ModelLoaderTest, RequestsJoinCellByCellUnlessTheConfigurationSaysWholeGraphs) {
  const auto whole_graphs = [this] {
    const auto loaded = LoadVersion(folder_, "tagger", 1, ModelId(7), limits_);
    return loaded.ok() ? loaded->join.whole_graphs : -1;
  };
  const std::string config = config_;
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(whole_graphs(), 0);
  for (const char* cellular : {"join {}", "join { cellular {} }"}) {
    config_ = config + cellular;
    ASSERT_TRUE(Load().ok());
    EXPECT_EQ(whole_graphs(), 0) << cellular;
  }
  config_ = config + "policy { kind: DEPTH } join { whole_graphs { most: 64 } }";
  ASSERT_TRUE(Load().ok());
  EXPECT_EQ(whole_graphs(), 64);
  config_ = config + "\njoin { whole_graphs { most: 4097 } }";
  EXPECT_THAT(Error(), HasSubstr("config.textproto:38: join.whole_graphs.most is 4097, allowed are "
                                 "1 to 4096"));
}

TEST_F(ModelLoaderTest, SequencesArePaddedWhereTheConfigurationSaysSoAndAlgorithmOneDecides) {
  const std::string config =
      config_ + "join { whole_graphs { most: 8 bucket_width: 10 padding: TO_THE_BUCKET } }";
  config_ = config;
  ASSERT_TRUE(Load().ok());
  const auto loaded = LoadVersion(folder_, "tagger", 1, ModelId(7), limits_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(Name(loaded->join), "whole_graphs of 8, buckets of 10, padded to the bucket");
  config_ = config + "\npolicy { kind: AGENDA }";
  EXPECT_THAT(Error(), HasSubstr("join.whole_graphs.padding: the model's policy is agenda"));
}

TEST_F(ModelLoaderTest, ToolsAreToSendSequencesWhereTheConfigurationSaysSo) {
  const std::string config = config_;
  auto model = Load();
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE((*model)->asks_for_sequences);
  EXPECT_TRUE((*model)->signature.state.empty()) << "a GRU below an LSTM";
  config_ = config + "sequences: ON";
  EXPECT_THAT(Error(), HasSubstr("config.textproto:37: sequences is ON, and the model has no state "
                                 "that a request could bring (INITIAL_H)"));
}

TEST_F(ModelLoaderTest, PriorityLevelsAreOneUnlessTheConfigurationSaysMore) {
  const std::string config = config_;
  auto model = Load();
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->priority_levels, 1);
  config_ = config + "priority_levels: 3 default_priority_level: 2";
  model = Load();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->priority_levels, 3);
  EXPECT_EQ((*model)->default_priority_level, 2);
  const auto error = [&](const char* levels) {
    config_ = config + "\n" + levels;
    return Error();
  };
  EXPECT_THAT(error("priority_levels: 257 default_priority_level: 1"),
              HasSubstr("config.textproto:38: priority_levels is 257, allowed are 0 to 256"));
  EXPECT_THAT(error("priority_levels: 3"),
              HasSubstr("default_priority_level is 0, allowed are 1 to 3"));
  EXPECT_THAT(error("priority_levels: 3 default_priority_level: 4"),
              HasSubstr("config.textproto:38: default_priority_level is 4, allowed are 1 to 3"));
  EXPECT_THAT(error("default_priority_level: 2"),
              HasSubstr("default_priority_level is 2 where there are no levels"));
}

TEST_F(ModelLoaderTest, FilesThatAreNotThereOrTooLargeAreNamed) {
  ASSERT_TRUE(Load().ok());
  std::filesystem::create_directories(folder_ + "/2");
  EXPECT_THAT(std::string(LoadModel(folder_, "tagger", 2, ModelId(1), limits_).status().message()),
              HasSubstr("2/weights.safetensors: No such file"));
  limits_.max_weight_bytes = 100;
  EXPECT_THAT(Error(), HasSubstr("the limit is 100"));
  limits_ = LoaderLimits();
  limits_.max_config_bytes = 10;
  EXPECT_THAT(Error(), HasSubstr("has more than 10 bytes"));
  std::filesystem::remove(folder_ + "/config.textproto");
  EXPECT_THAT(std::string(LoadModel(folder_, "tagger", 1, ModelId(1), {}).status().message()),
              HasSubstr("config.textproto: no such file"));
}

// Nobody may read it, root as little as others: nothing is mapped at 0.
TEST_F(ModelLoaderTest, WhatCannotBeReadIsSaidWithTheReason) {
  const absl::Status status = ReadTextFile("/proc/self/mem", 100).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "/proc/self/mem: cannot be read: Input/output error");
  std::filesystem::create_symlink("ring", folder_ + "/ring");
  EXPECT_EQ(ReadTextFile(folder_ + "/ring", 100).status().message(),
            folder_ + "/ring: cannot be read: Too many levels of symbolic links");
}

// It passes, and is nobody's fault: who polls tries again.
TEST_F(ModelLoaderTest, WhereFilesAreShortThatIsTheReasonAndNoFaultOfTheModels) {
  ASSERT_TRUE(Load().ok());
  for (const int left : {0, 1}) {
    std::optional<testing::FewFiles> few(left);
    const auto versions = VersionsToServe(folder_, limits_);
    const auto text = ReadTextFile(folder_ + "/config.textproto", 1 << 20);
    const auto loaded = LoadModel(folder_, "tagger", 1, ModelId(7), limits_);
    few.reset();
    EXPECT_EQ(versions.ok(), left == 1) << versions.status();
    EXPECT_EQ(text.ok(), left == 1) << text.status();
    EXPECT_EQ(loaded.ok(), left == 1) << loaded.status();
    if (left == 1) continue;
    for (const absl::Status& status : {versions.status(), text.status(), loaded.status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(": Too many open files"));
    }
    EXPECT_THAT(std::string(loaded.status().message()),
                AllOf(HasSubstr("/config.textproto: "), HasSubstr("/weights.safetensors: ")));
  }
}

// Half of them would be of what was there before.
TEST_F(ModelLoaderTest, WeightsThatAreWrittenWhileTheyAreReadAreNotServed) {
  ASSERT_TRUE(Load().ok());
  const std::string file = folder_ + "/1/weights.safetensors";
  std::atomic<int> written = 0;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    using Time = std::filesystem::file_time_type;
    while (!stop) std::filesystem::last_write_time(file, Time(std::chrono::seconds(++written)));
  });
  absl::Status status;
  while (status.ok() && written < 1'000'000) {
    status = LoadModel(folder_, "tagger", 1, ModelId(7), limits_).status();
  }
  stop = true;
  writer.join();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(file + ": was written to while it was read"), HasSubstr("rename")));
  EXPECT_TRUE(LoadModel(folder_, "tagger", 1, ModelId(7), limits_).ok()) << "once it is still";
}

// It becomes part of a path.
TEST_F(ModelLoaderTest, ACellsNameHasLettersDigitsAndTwoSignsAlone) {
  const auto error = [&](const std::string& name) {
    return ErrorWith("cell: \"lstm\"", "cell: \"" + name + "\"");
  };
  for (const std::string& none : {std::string(65, 'c'), std::string("a/b"), std::string("..")}) {
    EXPECT_THAT(error(none), HasSubstr(" is no cell's name: 1 to 64 letters, digits, _ or -"));
  }
  for (const std::string& other :
       {std::string(64, 'c'), std::string("A-b_9"), std::string("config")}) {
    EXPECT_THAT(error(other), HasSubstr("there is no cell \"" + other + "\""));
  }
  Write("lsdm.textproto", "");
  EXPECT_THAT(error("lsdn"), HasSubstr("did you mean \"lsdm\"?")) << "of the folder's own, too";
}

// Such a name would stand in messages and on the page of metrics, and none of these could be read, of no model.
TEST_F(ModelLoaderTest, TextsThatAreNoUtf8AreErrorsWithTheirPlace) {
  const size_t at = config_.find("name: \"head\"");
  ASSERT_NE(at, std::string::npos);
  const auto line = 1 + std::count(config_.begin(), config_.begin() + static_cast<long>(at), '\n');
  EXPECT_THAT(ErrorWith("name: \"head\"", "name: \"he\\xffad\""),
              AllOf(HasSubstr("config.textproto:" + std::to_string(line) + ":"),
                    HasSubstr(": name is no UTF-8")));
  EXPECT_THAT(ErrorWith("name: \"head\"", "name: \"he\xff\""), HasSubstr(": name is no UTF-8"));
  EXPECT_THAT(ErrorWith("cell: \"lstm\"", "cell: \"\\303\""), HasSubstr(": cell is no UTF-8"));
}

TEST_F(ModelLoaderTest, VersionsAreTheFoldersNamedByNumbers) {
  for (const char* name : {"10", "2", "007", "0", "-3", "abc", "3x", "99999999999999999999"}) {
    std::filesystem::create_directories(folder_ + "/" + name);
  }
  Write("4", "a file");
  EXPECT_EQ(*ModelVersions(folder_), (std::vector<int64_t>{1, 2, 10}));
  EXPECT_EQ(ModelVersions(folder_ + "/absent").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ModelLoaderTest, EveryProblemOfEveryTypeIsToldAtOnceAndWithoutTheWeightsWhatCanBe) {
  tensors_.erase("hh0");
  tensors_.erase("bi0");
  Tensor("ih1", {4 * kTop, 7});
  Tensor("hh1", {4 * kTop, kTop + 1});
  const std::string all = ErrorWith("max_batch: 64", "max_batch: -1");
  EXPECT_THAT(
      all,
      AllOf(HasSubstr("\nconfig.textproto:1: cell type \"f\": parameter \"U\": tensor \"hh0\""),
            HasSubstr("\nconfig.textproto:1: cell type \"f\": parameter \"b_in\": "),
            HasSubstr("config.textproto:19: cell type \"top\": min_batch 2 and "),
            HasSubstr("config.textproto:19: cell type \"top\": shipped lstm.textproto:16: ")))
      << "layers above a broken one are checked as far as they can be";

  const std::string config = config_;
  config_.replace(config_.find("cell: \"lstm\""), 12, "cell: \"lsmt\"");
  config_.replace(config_.find("chain {"), 7, "max_sequence_length: -4 chain {");
  const auto loaded = Load();
  std::filesystem::remove(folder_ + "/1/weights.safetensors");
  const auto model = LoadModel(folder_, "tagger", 1, ModelId(7), limits_);
  ASSERT_FALSE(model.ok());
  EXPECT_THAT(
      std::string(model.status().message()),
      AllOf(HasSubstr("weights.safetensors: No such file"),
            HasSubstr("\nconfig.textproto:31: max_sequence_length is -4"),
            HasSubstr("\nconfig.textproto:19: cell type \"top\": there is no cell \"lsmt\""),
            Not(HasSubstr("cell type \"f\""))));
}

// Somebody who may write a model's folder may not read the server's other files through it.
TEST_F(ModelLoaderTest, WhatLinksLeadToOutsideOfTheFolderIsNotRead) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(Load().ok());
  const std::string outside = ::testing::TempDir() + "/outside";
  fs::remove_all(outside);
  fs::create_directories(outside);
  std::string words;
  for (int i = 0; i < kV; ++i) words += fmt::format("word{}\n", i);
  Write("1/vocabulary.txt", words);
  Write("gru.textproto", "name: \"gru\"\n");  // goes before the shipped one, and is read
  EXPECT_THAT(Error(), HasSubstr("gru.textproto"));
  fs::remove(folder_ + "/gru.textproto");
  Write("config.textproto", config_);
  for (const char* file : {"config.textproto", "1/weights.safetensors", "1/vocabulary.txt",
                           "1/policy.textproto", "gru.textproto"}) {
    const fs::path here = folder_ + "/" + file, there = fs::path(outside) / here.filename();
    const bool needed = fs::exists(here);
    if (needed) {
      fs::rename(here, there);
    } else {
      std::ofstream(there) << "secret: 1\n";
    }
    fs::create_symlink(there, here);
    const auto read = LoadModel(folder_, "tagger", 1, ModelId(7), limits_);
    EXPECT_FALSE(read.ok()) << file;
    EXPECT_THAT(std::string(read.status().message()),
                AllOf(HasSubstr(fmt::format("{}: leads out of the model's folder", file)),
                      Not(HasSubstr("secret"))));
    fs::remove(here);
    if (needed) fs::rename(there, here);
  }
  // As Kubernetes mounts a folder: links that stay inside.
  fs::create_directories(folder_ + "/..2026");
  fs::create_symlink("..2026", folder_ + "/..data");
  fs::rename(folder_ + "/config.textproto", folder_ + "/..2026/config.textproto");
  fs::create_symlink("..data/config.textproto", folder_ + "/config.textproto");
  const auto inside = LoadModel(folder_, "tagger", 1, ModelId(7), limits_);
  EXPECT_TRUE(inside.ok()) << inside.status();
}

}  // namespace
}  // namespace cellbatch
