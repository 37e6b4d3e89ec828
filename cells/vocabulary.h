// Words and their numbers, both ways: what vocabulary.txt, chars.txt and labels.txt of a model version hold. One entry a
// line; the line's number, from 0, is its id. Entries are compared byte by byte: no case folding, no normalisation.
//
// Immutable after Create, any thread; shared by the model's unfolder and the requests that name it. Find costs one hash;
// Create O(text), and keeps the text.
#ifndef CELLBATCH_CELLS_VOCABULARY_H_
#define CELLBATCH_CELLS_VOCABULARY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"

namespace cellbatch {

inline constexpr size_t kMaxVocabularyWordBytes = 1024;  // of one entry

class Vocabulary {
 public:
  // INVALID_ARGUMENT "line 12: ..." (lines from 1, as editors count): an empty line, a control character, an entry of more
  // than kMaxVocabularyWordBytes, one that was there before; or no entry at all. A line break at the end is none.
  static absl::StatusOr<std::shared_ptr<const Vocabulary>> Create(std::string text);

  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::optional<int32_t> Find(std::string_view word) const {
    const auto found = ids_.find(word);
    return found == ids_.end() ? std::nullopt : std::optional<int32_t>(found->second);
  }
  int32_t size() const { return static_cast<int32_t>(words_.size()); }
  size_t longest() const { return longest_; }  // bytes of the longest word
  // Empty, as no entry is: none has that number.
  std::string_view word(int32_t id) const {
    return id >= 0 && id < size() ? words_[static_cast<size_t>(id)] : std::string_view();
  }

 private:
  explicit Vocabulary(std::string text) : text_(std::move(text)) {}

  const std::string text_;               // the words are pieces of it
  std::vector<std::string_view> words_;  // by id
  std::unordered_map<std::string_view, int32_t> ids_;
  size_t longest_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_VOCABULARY_H_
