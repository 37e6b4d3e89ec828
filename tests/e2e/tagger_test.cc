// The tagger that is shipped, through the real server: text in, labels out; and what is no text is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/small_models.h"

namespace cellbatch {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TaggerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    // A folder of links that lead out of it, which a server does not follow, as a test is given it: a copy.
    const std::string models = NewRepository();
    std::filesystem::copy("deploy/models/tagger", models + "/tagger",
                          std::filesystem::copy_options::recursive);
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
  // After whatever a test did, the next good request is right.
  void TearDown() override {
    EXPECT_THAT(LabelsOf({"Barack", "Obama", "was", "born", "in", "Honolulu", "."}),
                ElementsAre("I-PER", "I-PER", "O", "O", "O", "I-LOC", "O"));
  }

  static absl::StatusOr<InferResult> Infer(std::vector<Tensor> inputs,
                                           std::vector<std::string> outputs = {}) {
    return client_->Infer(
        {.model = "tagger", .inputs = std::move(inputs), .outputs = std::move(outputs)});
  }
  static Tensor Text(const std::vector<std::string>& words) {
    return TextTensor("WORDS_TEXT", {static_cast<int64_t>(words.size())}, words);
  }
  static Tensor Numbers(const char* name, const std::vector<int32_t>& values) {
    return Int32Tensor(name, {static_cast<int64_t>(values.size())}, values);
  }
  static std::vector<std::string> LabelsOf(const std::vector<std::string>& words) {
    const auto result = Infer({Text(words)}, {"LABELS"});
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return {};
    const auto labels = result->Find("LABELS")->AsTexts();
    EXPECT_TRUE(labels.ok()) << labels.status();
    return labels.ok() ? *labels : std::vector<std::string>{};
  }
  static void ExpectInvalid(std::vector<Tensor> inputs, const std::string& text) {
    const auto result = Infer(std::move(inputs));
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(text));
  }

  static ServerProcess* server_;
  static Client* client_;
};
ServerProcess* TaggerTest::server_ = nullptr;
Client* TaggerTest::client_ = nullptr;

TEST_F(TaggerTest, OutputAndLabelsComeTogetherAndOutputAloneWhereNothingIsNamed) {
  const auto both = Infer({Text({"He", "went", "to", "Zanzibar"})}, {"LABELS", "OUTPUT"});
  ASSERT_TRUE(both.ok()) << both.status();
  ASSERT_EQ(both->outputs.size(), 2u);
  EXPECT_EQ(both->outputs[0].datatype, "BYTES");
  EXPECT_THAT(both->outputs[0].shape, ElementsAre(4));
  EXPECT_THAT(both->outputs[1].shape, ElementsAre(4, 5));
  EXPECT_THAT(*both->outputs[0].AsTexts(), Each(AnyOf("O", "I-PER", "I-LOC", "I-ORG", "I-MISC")));
  const auto alone = Infer({Text({"He", "went", "to", "Zanzibar"})});
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_EQ(alone->outputs.size(), 1u);
  EXPECT_EQ(alone->outputs[0].bytes, both->outputs[1].bytes);
}

TEST_F(TaggerTest, ToolsSeeTheLabelsInTheMetadata) {
  const auto metadata = client_->Metadata("tagger");
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  ASSERT_EQ(metadata->outputs.size(), 2u);
  EXPECT_EQ(metadata->outputs[0].name, "OUTPUT");
  EXPECT_THAT(metadata->outputs[0].shape, ElementsAre(-1, 5));
  EXPECT_EQ(metadata->outputs[1].name, "LABELS");
  EXPECT_EQ(metadata->outputs[1].datatype, "BYTES");
}

TEST_F(TaggerTest, TextIsTheSameAsItsNumbersAndCharacters) {
  // Line 0 of chars.txt is the mark; an unseen word, spelled with unknown characters only, is the mark around <unk>.
  const auto text = Infer({Text({"☃☃"})});
  const auto spelled = Infer({Numbers("CHAR_LENGTHS", {4}), Numbers("CHAR_IDS", {0, 1, 1, 0})});
  ASSERT_TRUE(text.ok()) << text.status();
  ASSERT_TRUE(spelled.ok()) << spelled.status();
  EXPECT_EQ(text->outputs[0].bytes, spelled->outputs[0].bytes);
  // A known word by its number, beside one that is spelled: in one message of two sentences.
  const auto message = Infer({Numbers("TOKENS", {0, 0, 1}), Numbers("CHAR_LENGTHS", {0, 4, 0}),
                              Numbers("CHAR_IDS", {0, 1, 1, 0}), Numbers("LENGTHS", {1, 2})});
  const auto first = Infer({Numbers("TOKENS", {0})});
  ASSERT_TRUE(message.ok()) << message.status();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(message->outputs[0].bytes.substr(0, first->outputs[0].bytes.size()),
            first->outputs[0].bytes);
}

TEST_F(TaggerTest, TheCommandLinePrintsLabelsBelowWords) {
  const std::string command = "client/cellbatch-client tag --url=" + server_->grpc() +
                              " \"Barack Obama was born in Honolulu.\" 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string printed;
  std::array<char, 256> block;
  while (std::fgets(block.data(), block.size(), pipe) != nullptr) printed += block.data();
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(printed,
            "Barack  Obama  was  born  in  Honolulu  .\n"
            "I-PER   I-PER  O    O     O   I-LOC     O\n");
}

TEST_F(TaggerTest, WordsThatAreNoneAreRefusedWithTheirPlace) {
  ExpectInvalid({Text({"the", ""})}, "word 1 is empty");
  ExpectInvalid({Text({"the", "a\xff"})}, "word 1 is no UTF-8 at byte 1 of 2");
  ExpectInvalid({Text({std::string(1100, 'x')})},
                "word 0 has 1100 bytes; spelled, it may have 1024");
  ExpectInvalid({Text({"the"}), Numbers("TOKENS", {1})}, "TOKENS: given beside WORDS_TEXT");
  Tensor cut = Text({"the", "Paris"});
  cut.bytes.pop_back();
  ExpectInvalid({cut}, "element 1 is 5 bytes long, 4 are left");
  ExpectInvalid({}, "TOKENS");
}

TEST_F(TaggerTest, CharactersThatDoNotMatchTheirLengthsAreRefused) {
  const Tensor tokens = Numbers("TOKENS", {0, 1, 2});
  ExpectInvalid({tokens, Numbers("CHAR_LENGTHS", {0, -4, 0}), Numbers("CHAR_IDS", {0, 1, 1, 0})},
                "length 1 is -4, allowed are 0 to 1024");
  ExpectInvalid({tokens, Numbers("CHAR_LENGTHS", {0, 4, 1}), Numbers("CHAR_IDS", {0, 1, 1, 0})},
                "the words have 5 characters, CHAR_IDS has 4");
  ExpectInvalid({tokens, Numbers("CHAR_LENGTHS", {0, 4})}, "2 words, TOKENS has 3");
  ExpectInvalid({tokens, Numbers("CHAR_LENGTHS", {0, 1, 0}), Numbers("CHAR_IDS", {1 << 20})},
                "character 0 is 1048576");
  ExpectInvalid({tokens, Numbers("CHAR_IDS", {0})}, "CHAR_LENGTHS: missing beside CHAR_IDS");
  ExpectInvalid({Numbers("CHAR_LENGTHS", {1, 0}), Numbers("CHAR_IDS", {1})},
                "there are no TOKENS to read instead");
}

}  // namespace
}  // namespace cellbatch
