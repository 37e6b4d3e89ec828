// The tagger that is shipped, over text, against PyTorch in double: tagger.json is committed, tagger_reference.py made it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cells/vocabulary.h"
#include "server/repository/model_loader.h"
#include "tests/golden/served.h"
#include "tests/golden/torch_case.h"

namespace cellbatch::golden {
namespace {

struct Sentence {
  std::vector<std::string> words, labels;
  std::vector<double> scores;
  std::string text;  // the words as BYTES
};

std::vector<double> Floats(const ReturnedTensor& t) {
  std::vector<float> values(t.bytes.size() / sizeof(float));
  std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
  return {values.begin(), values.end()};
}

std::vector<std::string> Named(const ReturnedTensor& t) {
  std::vector<std::string> names;
  for (size_t at = 0; at < t.bytes.size(); at += sizeof(int32_t)) {
    int32_t id = 0;
    std::memcpy(&id, t.bytes.data() + at, sizeof(id));
    names.emplace_back(t.names->word(id));
  }
  return names;
}

// A test is given a folder of links that lead out of it, which no loader follows.
std::string CopyOfModel(const std::string& name) {
  const std::string folder = testing::TempDir() + "/" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::copy("deploy/models/tagger", folder, std::filesystem::copy_options::recursive);
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    std::filesystem::permissions(file, std::filesystem::perms::owner_write,
                                 std::filesystem::perm_options::add);
  }
  return folder;
}

class TaggerTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = CopyOfModel("tagger");
    const auto model = LoadModel(folder, "tagger", 1, ModelId(0), {});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    std::ifstream file("tests/golden/tagger.json");
    const auto json = nlohmann::json::parse(file, nullptr, false);
    ASSERT_TRUE(json.is_array());
    for (const auto& s : json) {
      sentences_.push_back({s["words"], s["labels"], s["scores"], ""});
      for (const std::string& word : sentences_.back().words) {
        const auto length = static_cast<uint32_t>(word.size());
        sentences_.back().text.append(reinterpret_cast<const char*>(&length), sizeof(length));
        sentences_.back().text += word;
      }
    }
    ASSERT_GE(sentences_.size(), 8u);
  }

  CellGraph Graph(const Sentence& s) const {
    RequestInput input;
    input.tensors.push_back(
        {"WORDS_TEXT",
         WireType::kBytes,
         {static_cast<int64_t>(s.words.size())},
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(s.text.data()), s.text.size())});
    input.outputs = {"OUTPUT", "LABELS"};
    auto graph = Unfolded(*model_, input);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  }

  // Every sentence, against PyTorch.
  void ExpectRight() const {
    std::vector<CellGraph> graphs;
    for (const Sentence& s : sentences_) graphs.push_back(Graph(s));
    const auto answers = Answers(std::move(graphs));
    for (size_t i = 0; i < answers.size(); ++i) {
      const Sentence& s = sentences_[i];
      SCOPED_TRACE(s.words[0]);
      ASSERT_TRUE(answers[i]->status.ok()) << answers[i]->status;
      const double part = PartOfBound(s.scores, Floats(answers[i]->graph.tensors()[0]));
      EXPECT_LE(part, 1) << "of the bound of design.md";
      EXPECT_EQ(Named(answers[i]->graph.tensors()[1]), s.labels);
      fmt::print("{:>3} words, {:.4f} of the bound\n", s.words.size(), part);
    }
  }

  std::vector<std::unique_ptr<Request>> Answers(std::vector<CellGraph> graphs) const {
    const auto served = Served::Start(1);
    EXPECT_TRUE(served.ok()) << served.status();
    EXPECT_TRUE((*served)->Add(model_).ok());
    return (*served)->Answer(model_, std::move(graphs));
  }

  std::shared_ptr<const Model> model_;
  std::vector<Sentence> sentences_;
};

TEST_F(TaggerTest, WordsAreLabelledAsPyTorchDoesInDouble) { ExpectRight(); }

TEST_F(TaggerTest, AtOperatorGranularityTheyAreToo) {
  const std::string folder = CopyOfModel("tagger_of_operators");
  std::ofstream(folder + "/config.textproto", std::ios::app) << "granularity: OPERATOR\n";
  const auto model = LoadModel(folder, "tagger", 1, ModelId(0), {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_GT((*model)->types.size(), model_->types.size());
  model_ = *model;
  ExpectRight();
}

TEST_F(TaggerTest, SpelledWordsHaveTheSameBitsAloneAndInCompany) {
  std::vector<CellGraph> graphs;
  for (int times = 0; times < 20; ++times) {
    for (const Sentence& s : sentences_) graphs.push_back(Graph(s));
  }
  const auto together = Answers(std::move(graphs));
  for (size_t i = 0; i < sentences_.size(); ++i) {
    std::vector<CellGraph> one;
    one.push_back(Graph(sentences_[i]));
    const auto alone = Answers(std::move(one));
    const auto expected = Floats(alone[0]->graph.tensors()[0]);
    for (size_t copy = i; copy < together.size(); copy += sentences_.size()) {
      ASSERT_EQ(Floats(together[copy]->graph.tensors()[0]), expected) << copy;
    }
  }
}

}  // namespace
}  // namespace cellbatch::golden
