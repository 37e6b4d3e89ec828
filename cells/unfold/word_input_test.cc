#include "cells/unfold/word_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<const Vocabulary> List(const char* text) {
  auto made = Vocabulary::Create(text);
  EXPECT_TRUE(made.ok()) << made.status();
  return *made;
}

// "the" is 0, "Paris" 1, "." 2; characters: <*> 0, <unk> 1, a 2, b 3, ö 4.
WordReading Reading() {
  return {.vocabulary_size = 5,
          .character_vocabulary_size = 5,
          .words = List("the\nParis\n.\n"),
          .characters = List("<*>\n<unk>\na\nb\nö\n"),
          .unknown_word = std::nullopt};
}

std::string Framed(const std::vector<std::string>& words) {
  std::string bytes;
  for (const std::string& word : words) {
    const auto length = static_cast<uint32_t>(word.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += word;
  }
  return bytes;
}

InputTensor Text(const std::string& bytes, int64_t words) {
  return {kWordsTextInput,
          WireType::kBytes,
          {words},
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())};
}

InputTensor Numbers(std::string_view name, const std::vector<int32_t>& values) {
  return {name,
          WireType::kInt32,
          {static_cast<int64_t>(values.size())},
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                              values.size() * sizeof(int32_t))};
}

std::vector<int32_t> Values(const std::byte* rows, int32_t count) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  if (count > 0) std::memcpy(values.data(), rows, values.size() * sizeof(int32_t));
  return values;
}

class WordInputTest : public ::testing::Test {
 protected:
  absl::StatusOr<WordRows> ReadText(const std::vector<std::string>& words,
                                    const WordReading& reading = Reading()) {
    text_ = Framed(words);
    RequestInput input;
    input.tensors = {Text(text_, static_cast<int64_t>(words.size()))};
    return ReadWords(input, reading, graph_);
  }
  std::string WhyNot(const std::vector<std::string>& words,
                     const WordReading& reading = Reading()) {
    return WhyNot(ReadText(words, reading));
  }
  static std::string WhyNot(const absl::StatusOr<WordRows>& rows) {
    EXPECT_TRUE(rows.ok() || rows.status().code() == absl::StatusCode::kInvalidArgument);
    return rows.ok() ? "accepted" : std::string(rows.status().message());
  }
  // TOKENS (none if empty), CHAR_LENGTHS and CHAR_IDS (likewise).
  std::string WhyNotSpelled(const std::vector<int32_t>& tokens, const std::vector<int32_t>& lengths,
                            const std::vector<int32_t>& characters) {
    RequestInput input;
    if (!tokens.empty()) input.tensors.push_back(Numbers(kTokensInput, tokens));
    if (!lengths.empty()) input.tensors.push_back(Numbers(kCharLengthsInput, lengths));
    if (!characters.empty()) input.tensors.push_back(Numbers(kCharIdsInput, characters));
    return WhyNot(ReadWords(input, Reading(), graph_));
  }

  CellGraph graph_;
  std::string text_;
};

TEST_F(WordInputTest, KnownWordsOfATextAreTheirNumbersAndOthersAreSpelledBetweenMarks) {
  const auto rows = ReadText({"Paris", "böa", "the", "B", "."});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->from, "WORDS_TEXT");
  EXPECT_THAT(Values(rows->tokens, rows->count), ElementsAre(1, 0, 0, 0, 2));
  EXPECT_THAT(rows->lengths, ElementsAre(0, 5, 0, 3, 0));
  EXPECT_THAT(Values(rows->characters, rows->num_characters), ElementsAre(0, 3, 4, 2, 0, 0, 1, 0));
}

TEST_F(WordInputTest, ATextOfKnownWordsSpellsNone) {
  const auto rows = ReadText({"the", "the"});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Values(rows->tokens, rows->count), ElementsAre(0, 0));
  EXPECT_TRUE(rows->lengths.empty());
  EXPECT_EQ(rows->num_characters, 0);
}

TEST_F(WordInputTest, WithoutMarksNoneAreAddedAndWithoutAnUnknownCharacterItIsAnError) {
  WordReading reading = Reading();
  reading.characters = List("a\nb\n");
  const auto rows = ReadText({"ab"}, reading);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Values(rows->characters, rows->num_characters), ElementsAre(0, 1));
  EXPECT_EQ(WhyNot({"the", "aö"}, reading),
            "input WORDS_TEXT: word 1: its character at byte 1 is none of the 2 known");
}

TEST_F(WordInputTest, AModelWithoutCharactersTakesTheUnknownWordOrRefuses) {
  WordReading reading = Reading();
  reading.characters = nullptr;
  EXPECT_EQ(WhyNot({"the", "Rome"}, reading),
            "input WORDS_TEXT: word 1, of 4 bytes, is not in the vocabulary of 3 words");
  reading.unknown_word = 4;
  const auto rows = ReadText({"the", "Rome"}, reading);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(Values(rows->tokens, rows->count), ElementsAre(0, 4));
}

TEST_F(WordInputTest, TextThatIsNoneIsRefusedByItsPlace) {
  EXPECT_EQ(WhyNot({"the", ""}), "input WORDS_TEXT: word 1 is empty");
  // A lone continuation byte, an overlong slash, a surrogate, beyond U+10FFFF, and one cut short.
  for (const char* wrong :
       {"a\x80", "a\xc0\xaf", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xe2\x82"}) {
    EXPECT_THAT(WhyNot({"the", wrong}), HasSubstr("word 1 is no UTF-8 at byte 1 of ")) << wrong;
  }
  const size_t most = kMaxWordCharacters - 2;
  EXPECT_EQ(WhyNot({std::string(most, 'x')}), "accepted");
  for (const size_t more : {most + 1, most + 2, most + 3, size_t{1} << 20}) {
    EXPECT_EQ(WhyNot({std::string(more, 'x')}), "input WORDS_TEXT: word 0 has " +
                                                    std::to_string(more) +
                                                    " bytes; spelled, it may have 1024 characters");
  }
}

TEST_F(WordInputTest, BytesThatAreNotFramedAsWordsAreRefused) {
  const auto error = [&](const std::string& bytes, int64_t words) {
    RequestInput input;
    input.tensors = {Text(bytes, words)};
    return WhyNot(ReadWords(input, Reading(), graph_));
  };
  const std::string two = Framed({"the", "the"});
  EXPECT_EQ(error(two, 2), "accepted");
  EXPECT_EQ(error(two, 1), "input WORDS_TEXT: 7 bytes follow the last of 1 words");
  EXPECT_EQ(error(two, 3), "input WORDS_TEXT: its bytes end before word 2");
  EXPECT_EQ(error(two, 4), "input WORDS_TEXT: 4 words in 14 bytes");
  EXPECT_EQ(error(two.substr(0, 13), 2), "input WORDS_TEXT: word 1 has 3 bytes, 2 are left");
  EXPECT_EQ(error(two, int64_t{1} << 40), "input WORDS_TEXT: 1099511627776 words in 14 bytes");
  EXPECT_EQ(error("", 0), "input WORDS_TEXT: 0 words in 0 bytes");
}

TEST_F(WordInputTest, LengthsMustMatchTheCharactersAndTheTokens) {
  EXPECT_EQ(WhyNotSpelled({0, 1, 2}, {0, 2, 1}, {2, 3, 4}), "accepted");
  EXPECT_EQ(WhyNotSpelled({0, 1}, {0, 0}, {}), "accepted");
  EXPECT_EQ(WhyNotSpelled({}, {2, 1}, {2, 3, 4}), "accepted") << "every word is spelled";
  EXPECT_EQ(WhyNotSpelled({0, 1}, {0, 2}, {2, 3, 4}),
            "input CHAR_LENGTHS: the words have 2 characters, CHAR_IDS has 3");
  EXPECT_EQ(WhyNotSpelled({0, 1}, {0, 2}, {}),
            "input CHAR_LENGTHS: the words have 2 characters, CHAR_IDS has 0");
  EXPECT_EQ(WhyNotSpelled({0, 1}, {2}, {2, 3}), "input CHAR_LENGTHS: 1 words, TOKENS has 2");
  EXPECT_EQ(WhyNotSpelled({0, 1}, {-1, 4}, {2, 3, 4}),
            "input CHAR_LENGTHS: length 0 is -1, allowed are 0 to 1024");
  EXPECT_EQ(WhyNotSpelled({0, 1}, {0, 1025}, {2, 3, 4}),
            "input CHAR_LENGTHS: length 1 is 1025, allowed are 0 to 1024");
  EXPECT_EQ(WhyNotSpelled({0}, {2}, {2, 5}),
            "input CHAR_IDS: character 1 is 5, the vocabulary ends at 4");
  EXPECT_EQ(WhyNotSpelled({5}, {}, {}), "input TOKENS: token 0 is 5, the vocabulary ends at 4");
}

TEST_F(WordInputTest, CharactersWithoutRowsAreAsThoseLeftOut) {
  const std::vector<int32_t> tokens = {0, 1}, lengths = {0, 0}, none;
  RequestInput input;
  input.tensors = {Numbers(kTokensInput, tokens), Numbers(kCharIdsInput, none)};
  EXPECT_EQ(WhyNot(ReadWords(input, Reading(), graph_)), "accepted");
  input.tensors.push_back(Numbers(kCharLengthsInput, lengths));
  EXPECT_EQ(WhyNot(ReadWords(input, Reading(), graph_)), "accepted");
}

TEST_F(WordInputTest, AWordMustComeInOneWayAndNoOther) {
  EXPECT_EQ(WhyNotSpelled({}, {}, {}), "input TOKENS: missing");
  EXPECT_EQ(WhyNotSpelled({}, {2, 0}, {2, 3}),
            "input CHAR_LENGTHS: length 1 is 0, and there are no TOKENS to read instead");
  EXPECT_EQ(WhyNotSpelled({0}, {}, {2, 3}), "input CHAR_LENGTHS: missing beside CHAR_IDS");
  text_ = Framed({"the"});
  for (const char* other : {kTokensInput, kCharIdsInput, kCharLengthsInput}) {
    const std::vector<int32_t> values = {1};
    RequestInput input;
    input.tensors = {Text(text_, 1), Numbers(other, values)};
    EXPECT_EQ(WhyNot(ReadWords(input, Reading(), graph_)),
              std::string("input ") + other + ": given beside WORDS_TEXT, which takes its place");
  }
}

}  // namespace
}  // namespace cellbatch
