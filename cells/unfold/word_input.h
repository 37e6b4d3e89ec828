// Words of a request, however they came: by number, spelled, as text.
//
//   TOKENS        INT32 [T]   each below the vocabulary
//   CHAR_LENGTHS  INT32 [T]   characters of each word; 0: the word is read by its number
//   CHAR_IDS      INT32 [sum of CHAR_LENGTHS]  exactly what the character cells read: marks around a word are the
//                             client's to put there. TOKENS may be left out where every word is spelled, CHAR_IDS where
//                             none is; the number of a spelled word is not looked at, but must be in the vocabulary
//   WORDS_TEXT    BYTES [T]   instead of all of these: UTF-8, looked up byte by byte in vocabulary.txt. A word that is not
//                             there is spelled, with the mark "<*>" (where chars.txt has it) in front and behind, and
//                             "<unk>" for characters that chars.txt lacks; without characters it is the unknown word, or
//                             an error
//
// Pure; any thread. O(T + characters). Fails with INVALID_ARGUMENT naming the tensor and both values.
#ifndef CELLBATCH_CELLS_UNFOLD_WORD_INPUT_H_
#define CELLBATCH_CELLS_UNFOLD_WORD_INPUT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/unfold/request_input.h"
#include "cells/vocabulary.h"

namespace cellbatch {

inline constexpr char kTokensInput[] = "TOKENS";
inline constexpr char kWordsTextInput[] = "WORDS_TEXT";
inline constexpr char kCharIdsInput[] = "CHAR_IDS";
inline constexpr char kCharLengthsInput[] = "CHAR_LENGTHS";

inline constexpr std::string_view kWordMark = "<*>";            // entries of chars.txt that are
inline constexpr std::string_view kUnknownCharacter = "<unk>";  // no characters
inline constexpr int32_t kMaxWordCharacters = 1024;             // of one word, marks included

// What a model knows of words.
struct WordReading {
  int64_t vocabulary_size = 0;
  int64_t character_vocabulary_size = 0;         // 0: it does not read characters
  std::shared_ptr<const Vocabulary> words;       // null: it does not read text
  std::shared_ptr<const Vocabulary> characters;  // null: words of a text are not spelled
  std::optional<int32_t> unknown_word;           // instead of refusing a word of a text

  bool spells() const { return character_vocabulary_size > 0; }
  bool spells_text() const { return spells() && characters != nullptr; }
};

// A request's words as rows: the message's own bytes, or memory that the graph keeps.
struct WordRows {
  std::string_view from;  // the tensor that brought them, for errors
  int32_t count = 0;
  const std::byte* tokens = nullptr;      // INT32 [count]; null: every word is spelled
  absl::Span<const int32_t> lengths;      // [count], 0: by its number; empty: no word is spelled
  const std::byte* characters = nullptr;  // INT32 [sum of lengths]; null: no word is spelled
  int32_t num_characters = 0;
};

absl::StatusOr<WordRows> ReadWords(const RequestInput& input, const WordReading& reading,
                                   CellGraph& graph);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_WORD_INPUT_H_
