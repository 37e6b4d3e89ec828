#include "cells/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace cellbatch {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// What is wrong with an entry; empty: nothing.
std::string WrongWith(std::string_view word) {
  if (word.empty()) return "is empty";
  if (word.size() > kMaxVocabularyWordBytes) {
    return fmt::format("has {} bytes, the most is {}", word.size(), kMaxVocabularyWordBytes);
  }
  const auto control =
      std::find_if(word.begin(), word.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
  if (control == word.end()) return "";
  return fmt::format("has the control character 0x{:02x} at byte {}",
                     static_cast<unsigned char>(*control), control - word.begin());
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Vocabulary>> Vocabulary::Create(std::string text) {
  if (text.size() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(fmt::format("{} bytes, 2^31 - 1 fit", text.size()));
  }
  const auto made = std::shared_ptr<Vocabulary>(new Vocabulary(std::move(text)));
  std::string_view rest = made->text_;
  const auto lines = static_cast<size_t>(std::count(rest.begin(), rest.end(), '\n')) + 1;
  made->words_.reserve(lines);
  made->ids_.reserve(lines);
  // It would be a part of the first word, which nobody could write.
  if (rest.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    return absl::InvalidArgumentError("line 1: begins with a byte order mark (EF BB BF)");
  }
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const int32_t id = made->size();
    if (const std::string wrong = WrongWith(word); !wrong.empty()) {
      return absl::InvalidArgumentError(fmt::format("line {}: {}", id + 1, wrong));
    }
    const auto [before, fresh] = made->ids_.emplace(word, id);
    if (!fresh) {
      return absl::InvalidArgumentError(fmt::format("line {}: \"{}\" is there already, in line {}",
                                                    id + 1, word, before->second + 1));
    }
    made->words_.push_back(word);
    made->longest_ = std::max(made->longest_, word.size());
  }
  if (made->words_.empty()) return absl::InvalidArgumentError("no entries");
  return std::shared_ptr<const Vocabulary>(made);
}

}  // namespace cellbatch
