#include "cells/unfold/word_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "cells/unfold/request_check.h"
#include "cells/unfold/utf8.h"

namespace cellbatch {
namespace {

// Looks every word of a text up, and spells those that are not there.
class TextReader {
 public:
  TextReader(const InputTensor& text, const WordReading& reading) : text_(text), reading_(reading) {
    if (!reading.spells_text()) return;
    mark_ = reading.characters->Find(kWordMark);
    unknown_character_ = reading.characters->Find(kUnknownCharacter);
  }

  absl::StatusOr<WordRows> Read(CellGraph& graph) {
    absl::Status s = CheckForm();
    const size_t count = s.ok() ? static_cast<size_t>(text_.dims[0]) : 0;
    tokens_.reserve(count);
    for (size_t i = 0; s.ok() && i < count; ++i) s = ReadNext();
    if (s.ok() && at_ != text_.bytes.size()) {
      s = Wrong(
          fmt::format("{} bytes follow the last of {} words", text_.bytes.size() - at_, count));
    }
    if (!s.ok()) return s;
    WordRows rows;
    rows.from = kWordsTextInput;
    rows.count = static_cast<int32_t>(count);
    rows.tokens = Keep(tokens_, graph);
    if (characters_.empty()) return rows;
    rows.lengths = {reinterpret_cast<const int32_t*>(Keep(lengths_, graph)), count};
    rows.characters = Keep(characters_, graph);
    rows.num_characters = static_cast<int32_t>(characters_.size());
    return rows;
  }

 private:
  static absl::Status Wrong(std::string_view what) { return WrongInput(kWordsTextInput, what); }

  static const std::byte* Keep(const std::vector<int32_t>& values, CellGraph& graph) {
    const size_t bytes = values.size() * sizeof(int32_t);
    std::byte* kept = graph.Keep(static_cast<int64_t>(bytes));
    std::memcpy(kept, values.data(), bytes);
    return kept;
  }

  absl::Status CheckForm() const {
    if (text_.type != WireType::kBytes) {
      return Wrong(fmt::format("datatype {}, expected BYTES", Name(text_.type)));
    }
    if (text_.dims.size() != 1) {
      return Wrong(fmt::format("{} dimensions, expected 1", text_.dims.size()));
    }
    // Every word takes its length at least: what is promised here is there.
    const int64_t most = static_cast<int64_t>(text_.bytes.size() / sizeof(uint32_t));
    if (text_.dims[0] >= 1 && text_.dims[0] <= std::min(most, kMaxTensorRows)) {
      return absl::OkStatus();
    }
    return Wrong(fmt::format("{} words in {} bytes", text_.dims[0], text_.bytes.size()));
  }

  absl::Status ReadNext() {
    uint32_t length = 0;
    if (text_.bytes.size() - at_ < sizeof(length)) {
      return Wrong(fmt::format("its bytes end before word {}", tokens_.size()));
    }
    std::memcpy(&length, text_.bytes.data() + at_, sizeof(length));
    at_ += sizeof(length);
    if (length > text_.bytes.size() - at_) {
      return Wrong(fmt::format("word {} has {} bytes, {} are left", tokens_.size(), length,
                               text_.bytes.size() - at_));
    }
    const std::string_view word(reinterpret_cast<const char*>(text_.bytes.data()) + at_, length);
    at_ += length;
    if (word.empty()) return Wrong(fmt::format("word {} is empty", tokens_.size()));
    lengths_.push_back(0);
    if (const std::optional<int32_t> id = reading_.words->Find(word)) {
      tokens_.push_back(*id);
      return absl::OkStatus();
    }
    return ReadUnknown(word);
  }

  absl::Status ReadUnknown(std::string_view word) {
    if (reading_.spells_text()) {
      absl::Status s = Spell(word);
      tokens_.push_back(0);
      return s;
    }
    if (reading_.unknown_word) {
      tokens_.push_back(*reading_.unknown_word);
      return absl::OkStatus();
    }
    // The word is the client's and may be anything: it is told by its place.
    return Wrong(fmt::format("word {}, of {} bytes, is not in the vocabulary of {} words",
                             tokens_.size(), word.size(), reading_.words->size()));
  }

  absl::Status Spell(std::string_view word) {
    const size_t before = characters_.size();
    if (mark_) characters_.push_back(*mark_);
    for (size_t at = 0; at < word.size();) {
      const size_t bytes = CharacterBytes(word.substr(at));
      if (bytes == 0) {
        return Wrong(
            fmt::format("word {} is no UTF-8 at byte {} of {}", tokens_.size(), at, word.size()));
      }
      std::optional<int32_t> id = reading_.characters->Find(word.substr(at, bytes));
      if (!id) id = unknown_character_;
      if (!id) {
        return Wrong(fmt::format("word {}: its character at byte {} is none of the {} known",
                                 tokens_.size(), at, reading_.characters->size()));
      }
      characters_.push_back(*id);
      at += bytes;
      // Found out as early as possible: a word may be as long as the message.
      if (characters_.size() - before > kMaxWordCharacters) break;
    }
    if (mark_) characters_.push_back(*mark_);
    if (characters_.size() - before > kMaxWordCharacters) {
      return Wrong(fmt::format("word {} has {} bytes; spelled, it may have {} characters",
                               tokens_.size(), word.size(), kMaxWordCharacters));
    }
    lengths_.back() = static_cast<int32_t>(characters_.size() - before);
    return absl::OkStatus();
  }

  const InputTensor& text_;
  const WordReading& reading_;
  std::optional<int32_t> mark_, unknown_character_;
  size_t at_ = 0;
  std::vector<int32_t> tokens_, lengths_, characters_;
};

// CHAR_LENGTHS against TOKENS, CHAR_IDS and the caps. `rows` has what TOKENS brought.
absl::Status ReadSpelled(const RequestInput& input, const WordReading& reading, CellGraph& graph,
                         WordRows& rows) {
  const InputTensor& lengths = *input.Find(kCharLengthsInput);
  absl::Status s = CheckTensor(lengths, WireType::kInt32, {-1});
  if (!s.ok()) return s;
  if (rows.tokens == nullptr) {
    rows.from = kCharLengthsInput;
    rows.count = static_cast<int32_t>(lengths.dims[0]);
  } else if (lengths.dims[0] != rows.count) {
    return WrongInput(kCharLengthsInput,
                      fmt::format("{} words, TOKENS has {}", lengths.dims[0], rows.count));
  }
  rows.lengths = Int32s(lengths);
  int64_t sum = 0;
  for (size_t i = 0; i < rows.lengths.size(); ++i) {
    const int32_t length = rows.lengths[i];
    if (length < 0 || length > kMaxWordCharacters) {
      return WrongInput(kCharLengthsInput, fmt::format("length {} is {}, allowed are 0 to {}", i,
                                                       length, kMaxWordCharacters));
    }
    if (length == 0 && rows.tokens == nullptr) {
      return WrongInput(kCharLengthsInput,
                        fmt::format("length {} is 0, and there are no TOKENS to read instead", i));
    }
    sum += length;
  }
  const InputTensor* characters = FindRows(input, kCharIdsInput);
  if (characters != nullptr) {
    s = CheckTensor(*characters, WireType::kInt32, {-1});
    if (!s.ok()) return s;
  }
  const int64_t there = characters == nullptr ? 0 : characters->dims[0];
  if (sum != there) {
    return WrongInput(kCharLengthsInput,
                      fmt::format("the words have {} characters, CHAR_IDS has {}", sum, there));
  }
  if (sum == 0) {
    rows.lengths = {};
    return absl::OkStatus();
  }
  const auto known =
      KnownIds(*characters, "character", {reading.character_vocabulary_size, {}}, graph);
  if (!known.ok()) return known.status();
  rows.characters = *known;
  rows.num_characters = static_cast<int32_t>(sum);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WordRows> ReadWords(const RequestInput& input, const WordReading& reading,
                                   CellGraph& graph) {
  const InputTensor* text = input.Find(kWordsTextInput);
  if (text != nullptr) {
    for (const char* other : {kTokensInput, kCharIdsInput, kCharLengthsInput}) {
      if (input.Find(other) == nullptr) continue;
      return WrongInput(other,
                        fmt::format("given beside {}, which takes its place", kWordsTextInput));
    }
    return TextReader(*text, reading).Read(graph);
  }
  const InputTensor* tokens = input.Find(kTokensInput);
  const InputTensor* lengths = input.Find(kCharLengthsInput);
  if (tokens == nullptr && lengths == nullptr) return WrongInput(kTokensInput, "missing");
  if (lengths == nullptr && FindRows(input, kCharIdsInput) != nullptr) {
    return WrongInput(kCharLengthsInput, fmt::format("missing beside {}", kCharIdsInput));
  }
  WordRows rows;
  if (tokens != nullptr) {
    if (absl::Status s = CheckTensor(*tokens, WireType::kInt32, {-1}); !s.ok()) return s;
    const auto known = KnownIds(*tokens, "token", {reading.vocabulary_size, {}}, graph);
    if (!known.ok()) return known.status();
    rows.from = kTokensInput;
    rows.count = static_cast<int32_t>(tokens->dims[0]);
    rows.tokens = *known;
  }
  if (lengths == nullptr) return rows;
  if (absl::Status s = ReadSpelled(input, reading, graph, rows); !s.ok()) return s;
  return rows;
}

}  // namespace cellbatch
