#include "cells/unfold/bracket_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"

namespace cellbatch {
namespace {

constexpr size_t kShownBytes = 40;  // of a word in an error text

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// A word of a client, made safe and short.
std::string Quoted(std::string_view word) {
  const std::string shown(word.substr(0, kShownBytes));
  return '"' + absl::CEscape(shown) + (word.size() > kShownBytes ? "...\"" : "\"");
}

// An optional sign, digits and at most one point: what a label looks like.
bool IsNumber(std::string_view word) {
  if (!word.empty() && (word[0] == '-' || word[0] == '+')) word.remove_prefix(1);
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto digits = std::count_if(word.begin(), word.end(), digit);
  const auto points = std::count(word.begin(), word.end(), '.');
  return digits > 0 && points <= 1 && digits + points == static_cast<ptrdiff_t>(word.size());
}

// Reads a text once, from left to right. Brackets that are open are a stack of its own.
class BracketParser {
 public:
  BracketParser(std::string_view text, int64_t max_nodes) : text_(text), max_nodes_(max_nodes) {}

  absl::StatusOr<BracketTrees> Run() {
    const int64_t brackets = std::count(text_.begin(), text_.end(), '(');
    const auto nodes = static_cast<size_t>(std::min(brackets, max_nodes_));
    made_.words.reserve(nodes);
    made_.children.reserve(nodes);
    made_.child_ends.reserve(nodes);
    for (at_ = 0; at_ < text_.size();) {
      const char c = text_[at_];
      absl::Status status;
      if (IsBlank(c)) {
        ++at_;
      } else if (c == '(') {
        status = Open();
        ++at_;
      } else if (c == ')') {
        status = Close();
        ++at_;
      } else {
        status = Word();
      }
      if (!status.ok()) return status;
    }
    if (!open_.empty()) {
      return Wrong(text_.size(),
                   fmt::format("the text ends with {} brackets open, the last of them at byte {}",
                               open_.size(), open_.back().begin));
    }
    if (made_.trees.empty()) return absl::InvalidArgumentError("the text has no tree");
    return std::move(made_);
  }

 private:
  // What stands behind an open bracket so far.
  struct Bracket {
    size_t begin = 0;                // byte
    size_t first_child = 0;          // in done_
    std::string_view words[2] = {};  // label and word, or a word alone
    int32_t num_words = 0;
  };

  static absl::Status Wrong(size_t byte, std::string_view what) {
    return absl::InvalidArgumentError(fmt::format("byte {}: {}", byte, what));
  }

  absl::Status Open() {
    // Every open bracket becomes a node, so that this bounds the stack, too.
    if (static_cast<int64_t>(open_.size()) + nodes_ >= max_nodes_) {
      return Wrong(at_, fmt::format("a node too many, the model takes {}", max_nodes_));
    }
    if (!open_.empty() && open_.back().num_words == 2) return WordBesideTree(open_.back());
    if (!open_.empty() && open_.back().num_words == 1) {
      absl::Status s = CheckLabel(open_.back(), "a tree");
      if (!s.ok()) return s;
    }
    open_.push_back({.begin = at_, .first_child = done_.size()});
    return absl::OkStatus();
  }

  absl::Status Word() {
    const size_t begin = at_;
    while (at_ < text_.size() && !IsBlank(text_[at_]) && text_[at_] != '(' && text_[at_] != ')') {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (open_.empty())
      return Wrong(begin, fmt::format("{} stands outside of brackets", Quoted(word)));
    Bracket& bracket = open_.back();
    if (done_.size() > bracket.first_child) {
      return Wrong(begin,
                   fmt::format("{} stands behind a tree; a leaf has brackets of its own, (word)",
                               Quoted(word)));
    }
    if (bracket.num_words == 2) {
      return Wrong(begin, fmt::format("{} is one word too many for the leaf at byte {}",
                                      Quoted(word), bracket.begin));
    }
    if (bracket.num_words == 1) {
      if (absl::Status s = CheckLabel(bracket, Quoted(word)); !s.ok()) return s;
    }
    bracket.words[bracket.num_words++] = word;
    return absl::OkStatus();
  }

  absl::Status Close() {
    if (open_.empty()) return Wrong(at_, "a closing bracket, and none is open");
    const Bracket bracket = open_.back();
    open_.pop_back();
    if (done_.size() > bracket.first_child) {
      CloseInternal(bracket);
    } else if (bracket.num_words > 0) {
      done_.push_back(tree_.leaves++);
      made_.words.push_back(bracket.words[bracket.num_words - 1]);
    } else {
      return Wrong(bracket.begin, "an empty pair of brackets");
    }
    ++nodes_;
    if (open_.empty()) CloseTree();
    return absl::OkStatus();
  }

  // What stands first in a bracket, and not alone.
  static absl::Status CheckLabel(const Bracket& bracket, std::string_view before) {
    if (IsNumber(bracket.words[0])) return absl::OkStatus();
    return Wrong(
        bracket.begin,
        fmt::format(
            "{} stands in front of {}: a label is a number, (3 (2 a) (1 b)), and a word has "
            "brackets of its own, ((a) (b))",
            Quoted(bracket.words[0]), before));
  }

  static absl::Status WordBesideTree(const Bracket& bracket) {
    return Wrong(bracket.begin, fmt::format("{} and {} stand beside a tree; at most a label does",
                                            Quoted(bracket.words[0]), Quoted(bracket.words[1])));
  }

  void CloseInternal(const Bracket& bracket) {
    made_.children.insert(made_.children.end(),
                          done_.begin() + static_cast<ptrdiff_t>(bracket.first_child), done_.end());
    made_.child_ends.push_back(static_cast<int32_t>(made_.children.size()));
    done_.resize(bracket.first_child);
    done_.push_back(~tree_.internals++);  // its number is known when the leaves are counted
  }

  void CloseTree() {
    for (; settled_ < made_.children.size(); ++settled_) {
      int32_t& child = made_.children[settled_];
      if (child < 0) child = tree_.leaves + ~child;
    }
    made_.trees.push_back(std::exchange(tree_, {}));
    done_.clear();
  }

  const std::string_view text_;
  const int64_t max_nodes_;
  size_t at_ = 0;
  std::vector<Bracket> open_;
  std::vector<int32_t>
      done_;  // children of open brackets: a leaf's number, or ~k of an internal one
  int64_t nodes_ = 0;
  BracketTrees::Tree tree_;  // the one that is read
  size_t settled_ = 0;       // children of trees before it
  BracketTrees made_;
};

}  // namespace

absl::StatusOr<BracketTrees> ParseBracketText(std::string_view text, int64_t max_nodes) {
  return BracketParser(text, max_nodes).Run();
}

}  // namespace cellbatch
