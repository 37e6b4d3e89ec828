// Users' own unfolders whose graphs grow, compiled as a user would: the example against its definition, all texts at once
// and each alone; and a library that does wrong between its pieces. That the process is still there is half the claim.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "cells/unfold/unfolder.h"
#include "server/repository/model_loader.h"
#include "tests/golden/bound.h"
#include "tests/golden/growing.h"
#include "tests/golden/served.h"
#include "tests/graphs/bad_growth.h"
#include "tests/graphs/outside.h"
#include "tests/graphs/words_input.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

using Text = std::vector<int32_t>;

class GrowingLibraryTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    prefix_ = InstallHeaders();
    folder_ = prefix_ + "/model";
    reader_ = new ReaderModel(prefix_, folder_);
    std::ifstream in(folder_ + "/config.textproto");
    config_.assign(std::istreambuf_iterator<char>(in), {});
  }
  static void TearDownTestSuite() { delete reader_; }

  static absl::StatusOr<std::shared_ptr<const Model>> Load(std::string config, int id = 1) {
    std::ofstream(folder_ + "/config.textproto") << config;
    return LoadModel(folder_, "model", 1, ModelId(id), {.unfolder_libraries = true});
  }
  // The example's, with others of these words of it.
  static std::string ConfigWith(
      const std::vector<std::pair<std::string, std::string>>& replacements) {
    std::string text = config_;
    for (const auto& [from, to] : replacements) {
      text.replace(text.find(from), from.size(), to);
    }
    return text;
  }

  static std::string prefix_, folder_, config_;
  static ReaderModel* reader_;
};
std::string GrowingLibraryTest::prefix_, GrowingLibraryTest::folder_, GrowingLibraryTest::config_;
ReaderModel* GrowingLibraryTest::reader_ = nullptr;

struct Answer {
  absl::Status status;
  std::vector<float> scores;
  int32_t read = 0;
  int64_t nodes = 0;
  bool operator==(const Answer& other) const {
    return scores == other.scores && read == other.read && nodes == other.nodes;
  }
};

Answer AnswerOf(Request& request) {
  Answer answer{request.status, {}, 0, request.nodes_executed};
  if (!request.status.ok()) return answer;
  request.graph.CloseAnswer();
  for (const ReturnedTensor& t : request.graph.tensors()) {
    if (t.name == "READ") std::memcpy(&answer.read, t.bytes.data(), 4);
    if (t.name != "OUTPUT") continue;
    answer.scores.resize(t.bytes.size() / 4);
    std::memcpy(answer.scores.data(), t.bytes.data(), t.bytes.size());
  }
  EXPECT_EQ(request.graph.tensors().size(), 2u) << "what is not sent is not there";
  return answer;
}

std::vector<Answer> Answers(Scheduler& scheduler, const std::shared_ptr<const Model>& model,
                            const std::vector<Text>& texts) {
  std::vector<RequestInput> inputs;
  for (const Text& text : texts) inputs.push_back(Words(text, {"READ", "OUTPUT"}));
  std::vector<Answer> answers;
  for (const auto& request : golden::AnswerGrowing(scheduler, model, inputs)) {
    answers.push_back(AnswerOf(*request));
  }
  return answers;
}

TEST_F(GrowingLibraryTest, TheExampleReadsAsFarAsItsDefinitionSaysAloneAndInCompany) {
  const auto model = Load(config_);
  ASSERT_TRUE(model.ok()) << model.status();
  auto served = golden::Served::Start(2);
  ASSERT_TRUE(served.ok()) << served.status();
  ASSERT_TRUE((*served)->Add(*model).ok());
  std::mt19937 random(3);
  std::vector<Text> texts;
  for (int i = 0; i < 200; ++i) {
    Text& text = texts.emplace_back(1 + random() % 30);
    for (int32_t& word : text) word = static_cast<int32_t>(random() % ReaderModel::kVocabulary);
  }
  const std::vector<Answer> together = Answers((*served)->scheduler(), *model, texts);
  int whole = 0, stopped = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const ReaderModel::Answers expected = reader_->Reference(texts[i]);
    ASSERT_GT(expected.closest, 1e-4) << "text " << i << " may go either way: take another seed";
    ASSERT_TRUE(together[i].status.ok()) << together[i].status;
    EXPECT_EQ(together[i].read, expected.read) << "text " << i;
    const std::vector<double> scores(together[i].scores.begin(), together[i].scores.end());
    EXPECT_LE(golden::PartOfBound(expected.scores, scores), 1);
    const int64_t heads = (expected.read + ReaderModel::kPiece - 1) / ReaderModel::kPiece;
    EXPECT_EQ(together[i].nodes, expected.read + heads) << "nothing more was computed";
    ++(expected.read == static_cast<int>(texts[i].size()) ? whole : stopped);
    EXPECT_EQ(Answers((*served)->scheduler(), *model, {texts[i]})[0], together[i]);
  }
  EXPECT_GT(whole, 10);
  EXPECT_GT(stopped, 10);
}

TEST_F(GrowingLibraryTest, TheConfigurationSaysHowFarGraphsMayGrow) {
  for (const char* wrong : {"max_pieces: -1", "max_pieces: 65537"}) {
    const auto refused = Load(ConfigWith({{"max_pieces: 1000", wrong}}));
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr(fmt::format("library: max_pieces is {}, graphs grow by 0 to 65536",
                                      std::string_view(wrong).substr(12))));
  }
  const auto unfold = [](const std::string& config, size_t words) {
    const auto model = Load(config);
    if (!model.ok()) return model.status();
    CellGraph graph;
    const Text text(words, 1);
    return (*model)->unfolder->Unfold(Words(text), graph);
  };
  const std::string two = ConfigWith({{"max_pieces: 1000", "max_pieces: 2"}});
  EXPECT_EQ(unfold(two, 8), absl::OkStatus());
  const absl::Status refused = unfold(two, 9);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("grow: 3 pieces may follow, the model takes 2 (max_pieces)"));
  EXPECT_THAT(std::string(unfold(ConfigWith({{"max_pieces: 1000", ""}}), 1).message()),
              HasSubstr("grow: 1 pieces may follow, the model takes 0 (max_pieces)"));
  // What may come counts: 8 words, 2 heads, and one head that is never asked.
  EXPECT_EQ(unfold(config_ + "max_nodes: 11", 8), absl::OkStatus());
  EXPECT_THAT(std::string(unfold(config_ + "max_nodes: 10", 8).message()),
              HasSubstr("the request makes 11 cells or more, the model takes 10"));
}

// Its requests count in forgotten_ how often their memory was given back.
class BadGrowthTest : public GrowingLibraryTest {
 protected:
  static absl::StatusOr<std::shared_ptr<const Model>> LoadBad(const std::string& table_size) {
    std::string source = kBadGrowth;
    source.replace(source.find("TABLE_SIZE"), 10, table_size);
    CompileLibrary(prefix_, "growth.cc", source, folder_ + "/growth.so");
    const auto where = reinterpret_cast<uintptr_t>(&forgotten_);
    return Load(ConfigWith({{"reader.so", "growth.so"},
                            {"4 0.5", std::to_string(where)},
                            {"max_pieces: 1000", "max_pieces: 10"}}) +
                "max_nodes: 1000");
  }
  static absl::Status Unfolded(const Model& model, const Text& text, CellGraph& graph) {
    const absl::Status status = model.unfolder->Unfold(Words(text), graph);
    return status.ok() ? graph.Seal(model, 2) : status;
  }
  static int forgotten_;
};
int BadGrowthTest::forgotten_ = 0;

TEST_F(BadGrowthTest, WhatALibraryGetsWrongEndsThatRequestAndWhatItRemembersIsGivenBackOnce) {
  const auto model = LoadBad("sizeof(CellbatchUnfolder)");
  ASSERT_TRUE(model.ok()) << model.status();
  for (const BadRequest& bad : kBadUnfolds) {
    SCOPED_TRACE(bad.text);
    CellGraph graph;
    const absl::Status status = Unfolded(**model, {bad.mode}, graph);
    EXPECT_EQ(status.code(),
              bad.its_own_fault ? absl::StatusCode::kInternal : absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text));
  }
  for (const BadRequest& bad : kBadExtends) {
    SCOPED_TRACE(bad.text);
    forgotten_ = 0;
    {
      CellGraph graph;
      const Text text = {bad.mode};
      ASSERT_EQ(Unfolded(**model, text, graph), absl::OkStatus());
      const absl::Status status = (*model)->unfolder->Extend(Words(text), graph);
      EXPECT_EQ(status.code(), bad.its_own_fault ? absl::StatusCode::kInternal
                                                 : absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(bad.text));
      EXPECT_EQ(forgotten_, bad.mode == 61 ? 1 : 0) << "what was not taken is given back at once";
    }
    EXPECT_EQ(forgotten_, bad.mode == 61 ? 2 : 1);
  }
}

TEST_F(BadGrowthTest, AGraphGrowsAsFarAsItSaidAndNoFurther) {
  const auto model = LoadBad("sizeof(CellbatchUnfolder)");
  ASSERT_TRUE(model.ok()) << model.status();
  const Text good = {0}, endless = {kEndless};
  CellGraph graph;
  ASSERT_EQ(Unfolded(**model, good, graph), absl::OkStatus());
  EXPECT_TRUE(graph.grows());
  EXPECT_EQ(graph.most_nodes(), 6);
  ASSERT_EQ((*model)->unfolder->Extend(Words(good), graph), absl::OkStatus());
  ASSERT_EQ(graph.Seal(**model, 2), absl::OkStatus());
  EXPECT_FALSE(graph.grows()) << "it was closed";
  // Its second row of words is one more than grow_input said: sealing knows.
  CellGraph greedy;
  ASSERT_EQ(Unfolded(**model, endless, greedy), absl::OkStatus());
  ASSERT_EQ((*model)->unfolder->Extend(Words(endless), greedy), absl::OkStatus());
  ASSERT_EQ(greedy.Seal(**model, 2), absl::OkStatus());
  ASSERT_EQ((*model)->unfolder->Extend(Words(endless), greedy), absl::OkStatus());
  EXPECT_THAT(std::string(greedy.Seal(**model, 2).message()),
              HasSubstr("needs 5 rows of table \"layer.token\"; it grows to 4"));
}

TEST_F(BadGrowthTest, ATableOfBeforeGraphsCouldGrowIsTakenAndItsGraphsDoNot) {
  const auto model = LoadBad("offsetof(CellbatchUnfolder, extend)");
  ASSERT_TRUE(model.ok()) << model.status();
  CellGraph graph;
  EXPECT_THAT(std::string(Unfolded(**model, {0}, graph).message()),
              HasSubstr("grow: the library has no extend"));
}

}  // namespace
}  // namespace cellbatch
