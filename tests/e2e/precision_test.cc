// The tagger that is shipped, served in every precision side by side through the real server: the configuration says which,
// answers are near each other and are not the same, and the same request has the same bits alone and in company.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

constexpr const char* kPrecisions[] = {"FP32", "BF16", "W8"};

class PrecisionTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::string models = NewRepository();
    std::vector<std::string> of_models(std::begin(kPrecisions), std::end(kPrecisions));
    of_models.insert(of_models.end(), {"FP32_SPLIT", "AUTO", "TF32"});
    for (const std::string& precision : of_models) {
      const std::string to = models + "/tagger_" + precision;
      std::filesystem::copy("deploy/models/tagger", to, std::filesystem::copy_options::recursive);
      std::ifstream from("deploy/models/tagger/config.textproto");
      std::ofstream config(to + "/config.textproto", std::ios::trunc);
      for (std::string line; std::getline(from, line);) {
        if (!line.starts_with("name: ")) config << line << "\n";
      }
      config << "precision: PRECISION_" << precision << "\n";
    }
    server_ = ServerProcess::Serving(models, {"--devices=cpu:0"}).release();
    ASSERT_NE(server_, nullptr);
    auto client = Client::Connect({.url = server_->grpc()});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = client->release();
  }
  static void TearDownTestSuite() {
    delete client_;
    if (server_ != nullptr) {
      server_->Signal(SIGTERM);
      EXPECT_EQ(server_->Wait(), 0) << server_->Log();
    }
    delete server_;
  }

  static std::vector<float> Logits(const std::string& precision,
                                   const std::vector<std::string>& words,
                                   const std::vector<int32_t>& lengths = {}) {
    InferInput request = {.model = "tagger_" + precision};
    request.inputs.push_back(TextTensor("WORDS_TEXT", {static_cast<int64_t>(words.size())}, words));
    if (!lengths.empty()) {
      request.inputs.push_back(
          Int32Tensor("LENGTHS", {static_cast<int64_t>(lengths.size())}, lengths));
    }
    const auto result = client_->Infer(request);
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    const auto logits = result->Find("OUTPUT")->AsFloats();
    EXPECT_TRUE(logits.ok()) << logits.status();
    return logits.ok() ? *logits : std::vector<float>();
  }

  static ServerProcess* server_;
  static Client* client_;
};
ServerProcess* PrecisionTest::server_ = nullptr;
Client* PrecisionTest::client_ = nullptr;

const std::vector<std::string> kWords = {"Barack", "Obama", "was", "born", "in", "Honolulu", "."};

TEST_F(PrecisionTest, TheConfigurationSaysWhich) {
  for (const char* precision : kPrecisions) {
    const auto config = client_->Config(std::string("tagger_") + precision);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->parameters.at("precision"), precision);
  }
}

// Each is FP32, but where the CPU has tile registers for the first two; ModelConfig says which it is.
TEST_F(PrecisionTest, SplitFp32AutoAndTf32AnswerAsFp32Does) {
  const std::vector<float> floats = Logits("FP32", kWords);
  for (const std::string asked : {"FP32_SPLIT", "AUTO", "TF32"}) {
    const auto config = client_->Config("tagger_" + asked);
    ASSERT_TRUE(config.ok()) << config.status();
    const std::string computed = config->parameters.at("precision");
    EXPECT_THAT(computed, testing::AnyOf("FP32", asked == "TF32" ? "FP32" : "FP32_SPLIT"));
    const std::vector<float> logits = Logits(asked, kWords);
    ASSERT_EQ(logits.size(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      EXPECT_NEAR(logits[i], floats[i], computed == "FP32" ? 0.0 : 2e-4) << asked;
    }
  }
}

TEST_F(PrecisionTest, AnswersAreNearThoseOfFp32AndAreNotThem) {
  const std::vector<float> floats = Logits("FP32", kWords);
  ASSERT_EQ(floats.size(), kWords.size() * 5);
  for (const char* precision : {"BF16", "W8"}) {
    const std::vector<float> logits = Logits(precision, kWords);
    ASSERT_EQ(logits.size(), floats.size());
    double error = 0.0, norm = 0.0;
    for (size_t i = 0; i < floats.size(); ++i) {
      error += std::pow(double{logits[i]} - floats[i], 2);
      norm += std::pow(double{floats[i]}, 2);
    }
    EXPECT_GT(error, 0.0) << precision;
    EXPECT_LT(std::sqrt(error / norm), 0.05) << precision;
  }
}

TEST_F(PrecisionTest, BitsOfASentenceDoNotDependOnThoseBesideIt) {
  std::vector<std::string> many;
  std::vector<int32_t> lengths;
  for (int i = 0; i < 9; ++i) {
    many.insert(many.end(), kWords.begin(), kWords.begin() + 1 + i % 7);
    lengths.push_back(1 + i % 7);
  }
  for (const char* precision : kPrecisions) {
    const std::vector<float> alone = Logits(precision, kWords);
    const std::vector<float> together = Logits(precision, many, lengths);
    ASSERT_EQ(together.size(), many.size() * 5);
    const size_t whole = 21 * 5;  // the seventh of them, of seven words, behind 1 + .. + 6
    EXPECT_EQ(std::vector<float>(together.begin() + whole, together.begin() + whole + alone.size()),
              alone)
        << precision;
  }
}

}  // namespace
}  // namespace cellbatch
