#include "server/convert/import_torch.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cells/weights/safetensors.h"
#include "server/policy/policy_codec.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ImportTorchTest : public testing::Test {
 protected:
  ImportTorchTest() {
    fs::remove_all(repository_);
    options_ = {.from = testing::TempDir() + "/state.safetensors",
                .repository = repository_,
                .name = "m",
                .hints = {}};
  }

  void Add(const std::string& name, std::vector<int64_t> shape) {
    int64_t n = 1;
    for (const int64_t d : shape) n *= d;
    tensors_[name] = {shape, std::vector<float>(static_cast<size_t>(n), 0.25f)};
  }
  void AddRnn(const std::string& prefix, int gates, int64_t d, int64_t h, int layers, bool both) {
    for (int l = 0; l < layers; ++l) {
      for (const char* end : {"", "_reverse"}) {
        if (*end != 0 && !both) continue;
        const int64_t input = l == 0 ? d : h * (both ? 2 : 1);
        Add(fmt::format("{}weight_ih_l{}{}", prefix, l, end), {gates * h, input});
        Add(fmt::format("{}weight_hh_l{}{}", prefix, l, end), {gates * h, h});
        Add(fmt::format("{}bias_ih_l{}{}", prefix, l, end), {gates * h});
        Add(fmt::format("{}bias_hh_l{}{}", prefix, l, end), {gates * h});
      }
    }
  }

  absl::StatusOr<Imported> Import() {
    std::vector<SafetensorsSource> sources;
    for (const auto& [name, tensor] : tensors_) {
      sources.push_back({name, tensor.first, tensor.second});
    }
    EXPECT_TRUE(WriteSafetensors(options_.from, sources, metadata_).ok());
    return ImportTorch(options_);
  }
  std::string Error() {
    const auto imported = Import();
    return imported.ok() ? "imported" : std::string(imported.status().message());
  }
  std::shared_ptr<const Model> Load() {
    const auto model = LoadModel(repository_ + "/m", "m", 1, ModelId(0), {});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *model : nullptr;
  }
  std::string Config() const {
    std::stringstream text;
    text << std::ifstream(repository_ + "/m/config.textproto").rdbuf();
    return text.str();
  }

  // All of the repository, by name, size and last change.
  std::string Files() const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(repository_)) {
      if (!entry.is_regular_file()) continue;
      files.push_back(fmt::format("{} {} {}\n", entry.path().string(), entry.file_size(),
                                  entry.last_write_time().time_since_epoch().count()));
    }
    std::sort(files.begin(), files.end());
    return fmt::format("{}", fmt::join(files, ""));
  }

  const std::string repository_ = testing::TempDir() + "/models";
  ImportOptions options_;
  std::map<std::string, std::pair<std::vector<int64_t>, std::vector<float>>> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};

TEST_F(ImportTorchTest, AClassifierBecomesAFolderThatLoads) {
  Add("embedding.weight", {30, 6});
  AddRnn("encoder.rnn.", 4, 6, 5, 2, true);
  Add("fc.weight", {3, 10});
  Add("fc.bias", {3});
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->parameters,
            30 * 6 + 2 * (20 * 6 + 20 * 5 + 40) + 2 * (20 * 10 + 20 * 5 + 40) + 33);
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->types.size(), 5u);
  EXPECT_EQ(model->types[0].name, "lstm_l0_forward");
  EXPECT_EQ(model->types[3].name, "lstm_l1_backward");
  EXPECT_EQ(model->types[4].name, "head");
  EXPECT_GT(model->types[4].priority, model->types[3].priority) << "later stages first";
  EXPECT_EQ(model->signature.vocabulary_size, 30);
  EXPECT_EQ(model->signature.outputs[0].dims, (std::vector<int64_t>{3}));
  const std::string summary = Summary(*imported, options_);
  EXPECT_THAT(summary, HasSubstr("LSTM, 2 layers, both directions, 6 -> 5 units"));
  EXPECT_THAT(summary, HasSubstr("TOKENS INT32 [T], 0 to 29 (\"embedding.weight\")"));
  EXPECT_THAT(summary, HasSubstr("OUTPUT FP32 [3], the logits of \"fc.weight\""));
  EXPECT_THAT(summary, HasSubstr("FINAL_H, FINAL_C [4, 5]\n         begins from zeros, or from "
                                 "INITIAL_H, INITIAL_C as FINAL_H, FINAL_C leave it"));
}

TEST_F(ImportTorchTest, WhatAHeadReadsIsSaidByAFlag) {
  AddRnn("lstm.", 4, 6, 5, 1, true);
  options_.head_reads = "every";
  EXPECT_EQ(Error(),
            "--head-reads every: the model has no linear head; ALL_HIDDEN is what every step "
            "leaves");
  Add("fc.weight", {3, 10});
  Add("fc.bias", {3});
  const auto tagger = Import();
  ASSERT_TRUE(tagger.ok()) << tagger.status();
  EXPECT_THAT(Config(), HasSubstr("token_head: \"head\""));
  EXPECT_THAT(Summary(*tagger, options_),
              HasSubstr("OUTPUT FP32 [T, 3], the logits of \"fc.weight\""));
  EXPECT_EQ(Load()->signature.outputs[0].dims, (std::vector<int64_t>{-1, 3}));
  options_.overwrite = true;
  const auto h_n = testing::Contains(HasSubstr("a model that reads out[:, -1]"));
  EXPECT_THAT(tagger->notes, testing::Not(h_n));
  for (const char* final : {"", "final"}) {
    options_.head_reads = final;
    const auto classifier = Import();
    ASSERT_TRUE(classifier.ok()) << classifier.status();
    EXPECT_THAT(Config(), HasSubstr(" head: \"head\""));
    EXPECT_EQ(testing::Matches(h_n)(classifier->notes), *final == 0) << "said where it was asked";
  }
  options_.head_reads = "last";
  EXPECT_EQ(Error(), "--head-reads is \"last\": it takes \"final\" or \"every\"");
}

TEST_F(ImportTorchTest, EveryKindOfModuleIsWrittenWithItsCell) {
  struct Kind {
    int gates;
    const char* nonlinearity;
    const char* cell;
  };
  for (const Kind& kind :
       {Kind{4, "", "cell: \"lstm\""}, Kind{3, "", "cell: \"gru\""},
        Kind{1, "tanh", "cell: \"elman\""}, Kind{1, "relu", "cell: \"elman_relu\""}}) {
    tensors_.clear();
    AddRnn("", kind.gates, 7, 5, 3, false);
    options_.hints.nonlinearity = kind.nonlinearity;
    options_.overwrite = true;
    ASSERT_EQ(Error(), "imported");
    EXPECT_THAT(Config(), HasSubstr(kind.cell));
    const auto model = Load();
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model->signature.inputs[0].dims, (std::vector<int64_t>{-1, 7}));
    EXPECT_EQ(model->signature.outputs[0].dims, (std::vector<int64_t>{5}));
    if (kind.gates != 3) {
      EXPECT_FLOAT_EQ(model->types[0].weights[2].data[0], 0.5f) << "the sum of two biases";
    }
  }
}

TEST_F(ImportTorchTest, AProjectionIsAnotherCell) {
  for (int l = 0; l < 2; ++l) {
    Add(fmt::format("weight_ih_l{}", l), {20, l == 0 ? 7 : 3});
    Add(fmt::format("weight_hh_l{}", l), {20, 3});
    Add(fmt::format("weight_hr_l{}", l), {3, 5});
  }
  Add("fc.weight", {2, 3});
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(Config(), HasSubstr("cell: \"lstmp\""));
  EXPECT_THAT(Summary(*imported, options_),
              testing::AllOf(HasSubstr("7 -> 5 units (projected to 3)"),
                             HasSubstr("ALL_HIDDEN [T, 3], FINAL_H [2, 3], FINAL_C [2, 5]")));
}

TEST_F(ImportTorchTest, CellsOfAListAreLayersOfTheirOwnWidths) {
  for (const auto& [l, d, h] : {std::tuple(0, 7, 5), {1, 5, 4}}) {
    Add(fmt::format("cells.{}.weight_ih", l), {3 * h, d});
    Add(fmt::format("cells.{}.weight_hh", l), {3 * h, h});
    Add(fmt::format("cells.{}.bias_ih", l), {3 * h});
    Add(fmt::format("cells.{}.bias_hh", l), {3 * h});
  }
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(Summary(*imported, options_),
              HasSubstr("2 layers, one direction, 7 -> 5 -> 4 units"));
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->signature.outputs[0].dims, (std::vector<int64_t>{4}));
}

// nn.LSTMs of an nn.ModuleList, each of its own widths and directions, are served on each other where --rnn says so.
TEST_F(ImportTorchTest, ModulesOfAListAreLayersInTheOrderThatAFlagSays) {
  AddRnn("lstms.0.", 4, 7, 5, 2, true);
  AddRnn("lstms.1.", 4, 10, 4, 1, false);
  Add("fc.weight", {2, 4});
  EXPECT_THAT(Error(), HasSubstr("--rnn lstms.0,lstms.1"));
  options_.hints.rnn_prefix = "lstms.0,lstms.1";
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  ASSERT_EQ(model->types.size(), 6u);
  EXPECT_EQ(model->types[3].name, "lstm_l1_backward");
  EXPECT_EQ(model->types[4].name, "lstm_l2");
  EXPECT_THAT(Summary(*imported, options_), HasSubstr("3 layers, one or both directions, 7 -> 5"));
  EXPECT_EQ(model->signature.outputs[0].dims, (std::vector<int64_t>{2}));
}

// safetensors.torch.save_model writes a tensor of several names once, and says in the file's metadata what the others are.
TEST_F(ImportTorchTest, AHeadThatIsTheEmbeddingIsServedThoughTheFileHasItOnce) {
  AddRnn("rnn.", 4, 5, 5, 1, false);
  Add("embedding.weight", {30, 5});
  metadata_ = {{"format", "pt"}, {"decoder.weight", "embedding.weight"}};
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->notes,
              testing::Contains("\"decoder.weight\" is \"embedding.weight\", as the file says"));
  const auto model = Load();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->signature.vocabulary_size, 30);
  EXPECT_EQ(model->signature.outputs[0].dims, (std::vector<int64_t>{30}));
  options_.overwrite = true;
  tensors_.erase("embedding.weight");
  Add("decoder.weight", {30, 5});
  metadata_ = {{"embedding.weight", "decoder.weight"}};  // whichever of the two was kept
  EXPECT_EQ(Error(), "imported");
  EXPECT_EQ(Load()->signature.vocabulary_size, 30);
  metadata_.emplace_back("attn.weight", "decoder.weight");
  EXPECT_THAT(Error(), HasSubstr("\"attn.weight\" F32 [30, 5] fits no place"));
}

TEST_F(ImportTorchTest, WhatIsWrongIsSaidAndLeavesNoFolder) {
  AddRnn("", 1, 7, 5, 1, false);
  EXPECT_THAT(Error(), HasSubstr("--nonlinearity tanh or relu"));
  options_.hints.nonlinearity = "relu";
  options_.precision = "INT4";
  EXPECT_THAT(
      Error(),
      HasSubstr("--precision is \"INT4\", FP32, FP32_SPLIT, AUTO, TF32, BF16 and W8 are offered"));
  options_.precision = "FP32";
  for (const char* name : {"", "../m", ".m", "a b"}) {
    options_.name = name;
    EXPECT_THAT(Error(), HasSubstr("a model's name has"));
  }
  options_.name = "m";
  options_.version = 0;
  EXPECT_THAT(Error(), HasSubstr("--version is 0"));
  EXPECT_FALSE(fs::exists(repository_));
  options_.version = 1;
  options_.from += ".absent";
  EXPECT_THAT(std::string(ImportTorch(options_).status().message()), HasSubstr("No such file"));
}

TEST_F(ImportTorchTest, AVersionThatIsThereIsKeptUnlessAskedFor) {
  AddRnn("", 3, 7, 5, 1, false);
  EXPECT_EQ(Error(), "imported");
  EXPECT_EQ(Import().status().code(), absl::StatusCode::kAlreadyExists);
  options_.overwrite = true;
  EXPECT_EQ(Error(), "imported");
  options_.overwrite = false;
  options_.version = 2;
  EXPECT_EQ(Error(), "imported");
}

// Another version does not change which of them are served, nor how the model stands among others.
TEST_F(ImportTorchTest, HowAModelIsServedStaysWhenAVersionIsAdded) {
  AddRnn("", 3, 7, 5, 1, false);
  EXPECT_EQ(Error(), "imported");
  const std::string file = repository_ + "/m/config.textproto";
  std::ofstream(file, std::ios::app)
      << "version_policy { latest { num_versions: 2 } } priority_levels: 3 weight: 2 "
         "default_priority_level: 2 sequences: ON max_nodes: 77\n";
  options_.version = 2;
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->notes,
              testing::Contains("kept of the config.textproto that was there: weight, "
                                "priority_levels, default_priority_level, version_policy, "
                                "sequences"));
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  for (const char* kept : {"num_versions: 2", "priority_levels: 3", "weight: 2",
                           "default_priority_level: 2", "sequences: ON"}) {
    EXPECT_THAT(text.str(), HasSubstr(kept));
  }
  EXPECT_EQ(text.str().find("max_nodes"), std::string::npos) << "that is the cells'";
  EXPECT_EQ(VersionsToServe(repository_ + "/m", {})->size(), 2u);
  std::ofstream(file) << "no configuration";
  options_.version = 3;
  EXPECT_EQ(Error(), "imported");
  EXPECT_EQ(VersionsToServe(repository_ + "/m", {})->size(), 1u);
}

// All versions have one configuration, and a server that cannot serve one of them does not start.
TEST_F(ImportTorchTest, AVersionOfOtherCellsIsNotPutBesideOneThatIsServedToo) {
  AddRnn("", 4, 7, 5, 1, false);
  ASSERT_EQ(Error(), "imported");
  std::ofstream(repository_ + "/m/config.textproto", std::ios::app)
      << "version_policy { all { } }\n";
  const std::string before = Files();
  options_.version = 2;
  tensors_.clear();
  AddRnn("", 3, 7, 5, 1, false);
  EXPECT_THAT(Error(),
              HasSubstr("version 1 is served, too (version_policy in config.textproto), and "
                        "has other cells than"));
  EXPECT_EQ(Files(), before);
  tensors_.clear();
  AddRnn("", 4, 7, 6, 1, false);  // other sizes are no other cells
  EXPECT_EQ(Error(), "imported");
  EXPECT_EQ(VersionsToServe(repository_ + "/m", {})->size(), 2u);
}

// Who has opened a file of the model reads it whole, as it was.
TEST_F(ImportTorchTest, FilesAreReplacedAndNeverWrittenOver) {
  AddRnn("", 3, 7, 5, 1, false);
  EXPECT_EQ(Error(), "imported");
  const std::string folder = repository_ + "/m", old = repository_ + "-old";
  fs::remove_all(old);
  fs::create_directories(old);
  for (const char* file : {"config.textproto", "1/weights.safetensors"}) {
    fs::create_hard_link(folder + "/" + file, old + "/" + fs::path(file).filename().string());
  }
  options_.overwrite = true;
  EXPECT_EQ(Error(), "imported");
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    ++files;
    EXPECT_EQ(fs::hard_link_count(entry.path()), 1u) << entry.path();
  }
  EXPECT_EQ(files, 2) << "nothing is left of writing them";
}

TEST_F(ImportTorchTest, WeightsThatAreNotFiniteAreRefused) {
  AddRnn("", 3, 7, 5, 1, false);
  tensors_["bias_hh_l0"].second[4] = std::nanf("");
  EXPECT_THAT(Error(), HasSubstr("tensor \"bias_hh_l0\" holds nan at element 4"));
}

// A server starts with all models of its repository or not at all, and serves the highest version of each.
TEST_F(ImportTorchTest, AConversionThatFailsLeavesTheRepositoryAsItWas) {
  AddRnn("", 1, 7, 5, 1, false);
  options_.hints.nonlinearity = "tanh";
  const std::vector<float> good = tensors_["bias_hh_l0"].second;
  const auto fail = [this](float bias) {
    for (const char* name : {"bias_ih_l0", "bias_hh_l0"}) {
      tensors_[name].second.assign(5, bias);  // of 3e38 each is finite, and their sum is not
    }
    return Error();
  };
  EXPECT_THAT(fail(std::nanf("")), HasSubstr("holds nan"));
  EXPECT_THAT(fail(3e38f), HasSubstr("element 0 is inf"));
  EXPECT_EQ(Files(), "");
  EXPECT_TRUE(fs::is_empty(repository_)) << "nor a folder";
  tensors_["bias_ih_l0"].second = tensors_["bias_hh_l0"].second = good;
  ASSERT_EQ(Error(), "imported");
  const std::string before = Files();
  options_.overwrite = true;
  for (const int64_t version : {1, 2}) {
    options_.version = version;
    EXPECT_THAT(fail(std::nanf("")), HasSubstr("holds nan"));
    EXPECT_THAT(fail(3e38f), HasSubstr("element 0 is inf"));
    EXPECT_EQ(Files(), before) << version;
    EXPECT_EQ(*ModelVersions(repository_ + "/m"), (std::vector<int64_t>{1})) << version;
  }
}

// It was learned for the cells that go, and would keep the others from being served or learned anew.
TEST_F(ImportTorchTest, APolicyOfOtherCellsGoesWithTheVersionThatIsReplaced) {
  AddRnn("", 3, 7, 5, 1, false);
  ASSERT_EQ(Error(), "imported");
  const std::string policy = repository_ + "/m/1/policy.textproto";
  options_.overwrite = true;
  PolicySpec learned;
  learned.kind = PolicyKind::kLbGreedy;
  const std::string of_these_cells = PolicyText(ToPolicyFile(learned, *Load()));
  std::ofstream(policy) << of_these_cells;
  EXPECT_EQ(Error(), "imported");
  EXPECT_TRUE(fs::exists(policy)) << "of the same cells";
  AddRnn("", 3, 7, 5, 2, false);
  const auto imported = Import();
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_THAT(imported->notes, testing::Contains(HasSubstr("policy.textproto of the version that "
                                                           "was there is of other cells")));
  EXPECT_FALSE(fs::exists(policy));
  EXPECT_NE(Load(), nullptr);
}

// What is read beside the weights is looked at, too, and told by where its user knows it.
TEST_F(ImportTorchTest, AVersionIsWrittenOnlyWhereItLoadsBesideWhatIsThere) {
  AddRnn("", 3, 6, 5, 1, false);
  Add("embedding.weight", {30, 6});
  ASSERT_EQ(Error(), "imported");
  const std::string vocabulary = repository_ + "/m/1/vocabulary.txt";
  for (int word = 0; word < 30; ++word) {
    std::ofstream(vocabulary, std::ios::app) << "word" << word << "\n";
  }
  options_.overwrite = true;
  EXPECT_EQ(Error(), "imported");
  std::ofstream(vocabulary, std::ios::app) << "another\n";
  const std::string before = Files();
  EXPECT_THAT(Error(), HasSubstr("vocabulary.txt"));
  EXPECT_EQ(Error().find("partial"), std::string::npos) << Error();
  EXPECT_EQ(Files(), before);
}

}  // namespace
}  // namespace cellbatch
