// Damaged WORDS_TEXT, and character lengths drawn at random: whatever comes, the answer is words whose numbers all lie in
// their vocabularies, or INVALID_ARGUMENT.
#include <algorithm>
#include <cstring>
#include <random>

#include "cells/unfold/word_input.h"
#include "gtest/gtest.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr int64_t kWords = 6, kCharacters = 9;

WordReading Reading() {
  const auto words = Vocabulary::Create("the\nParis\n.\n's\nBöll\n");
  const auto characters = Vocabulary::Create("<*>\n<unk>\na\nb\nö\n東\n😀\n");
  EXPECT_TRUE(words.ok() && characters.ok());
  return {.vocabulary_size = kWords,
          .character_vocabulary_size = kCharacters,
          .words = *words,
          .characters = *characters,
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

int32_t At(const std::byte* rows, int64_t i) {
  int32_t value = 0;
  std::memcpy(&value, rows + i * 4, sizeof(value));
  return value;
}

// True: accepted.
bool Holds(const absl::StatusOr<WordRows>& rows) {
  if (!rows.ok()) {
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_LT(rows.status().message().size(), 200u);
    return false;
  }
  EXPECT_GE(rows->count, 1);
  int64_t sum = 0;
  for (const int32_t length : rows->lengths) {
    EXPECT_TRUE(length >= 0 && length <= kMaxWordCharacters) << length;
    sum += length;
  }
  EXPECT_EQ(sum, rows->num_characters);
  EXPECT_TRUE(rows->lengths.empty() || static_cast<int32_t>(rows->lengths.size()) == rows->count);
  for (int32_t i = 0; rows->tokens != nullptr && i < rows->count; ++i) {
    EXPECT_TRUE(At(rows->tokens, i) >= 0 && At(rows->tokens, i) < kWords);
  }
  for (int32_t i = 0; i < rows->num_characters; ++i) {
    EXPECT_TRUE(At(rows->characters, i) >= 0 && At(rows->characters, i) < kCharacters);
  }
  return true;
}

TEST(WordInputFuzzTest, DamagedTextIsRefusedOrBecomesWords) {
  const uint64_t seed = 20261121;
  SCOPED_TRACE(seed);
  const WordReading reading = Reading();
  const std::vector<std::string> corpus = {Framed({"the", "Paris", "."}),
                                           Framed({"Böll", "'s", "ab東😀"}), Framed({"x"}),
                                           Framed({std::string(1020, 'a')})};
  Mutator mutator(seed,
                  {std::string("\x01\0\0\0", 4), std::string("\0\0\0\0", 4), "\xff\xff\xff\xff",
                   "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\x80", "the", "東"});
  int64_t accepted = 0;
  FuzzBudget budget(1000, 0.5);
  while (budget.Next()) {
    const std::string bytes = mutator.Mutate(corpus[mutator.Below(corpus.size())]);
    CellGraph graph;
    RequestInput input;
    input.tensors.push_back(
        {kWordsTextInput,
         WireType::kBytes,
         {1 + static_cast<int64_t>(mutator.Below(4))},
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size())});
    if (Holds(ReadWords(input, reading, graph))) ++accepted;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(accepted, budget.cases() / 100);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

TEST(WordInputFuzzTest, NumbersAndLengthsThatDoNotMatchAreRefused) {
  const uint32_t seed = 20261122;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const WordReading reading = Reading();
  // Mostly sound; now and then one off, negative, or as large as can be.
  const auto draw = [&](int32_t below) {
    const uint32_t kind = random() % 32;
    if (kind == 0) return below;
    if (kind == 1) return -1;
    if (kind == 2) return INT32_MAX;
    return static_cast<int32_t>(random() % static_cast<uint32_t>(below));
  };
  const auto tensor = [](const char* name, const std::vector<int32_t>& values) {
    return InputTensor{name,
                       WireType::kInt32,
                       {static_cast<int64_t>(values.size())},
                       absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                                           values.size() * sizeof(int32_t))};
  };
  int64_t accepted = 0;
  FuzzBudget budget(1000, 0.5);
  while (budget.Next()) {
    std::vector<int32_t> tokens(1 + random() % 5), lengths(tokens.size()), characters;
    for (int32_t& token : tokens) token = random() % 4 == 0 ? draw(kWords) : 1;
    for (int32_t& length : lengths) {
      length = random() % 4 == 0 ? draw(4) : static_cast<int32_t>(random() % 3);
      for (int32_t c = 0; c < std::min(length, 4); ++c) {
        characters.push_back(random() % 8 == 0 ? draw(kCharacters) : 2);
      }
    }
    if (random() % 8 == 0) characters.resize(random() % 8, 1);
    if (random() % 16 == 0) lengths.resize(random() % 6, 1);
    CellGraph graph;
    RequestInput input;
    if (random() % 8 != 0) input.tensors.push_back(tensor(kTokensInput, tokens));
    if (random() % 8 != 0) input.tensors.push_back(tensor(kCharLengthsInput, lengths));
    if (!characters.empty()) input.tensors.push_back(tensor(kCharIdsInput, characters));
    if (Holds(ReadWords(input, reading, graph))) ++accepted;
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_GT(accepted, budget.cases() / 20);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch
