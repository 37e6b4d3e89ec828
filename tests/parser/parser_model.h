// A transition parser (Dyer et al., 2015, in small): the model and unfolder whose graphs depend on what
// they compute. The one to read before writing an unfolder that extends (cells/unfold/unfolder.h).
//
//   words      embed: x of every word                      stack    s2 <- s1 <- s0     LSTM states; popping
//   buffer     LSTM over x, from the last word to the              \        (pushed over s1, after s0
//              first: its state before word i                       s0'      is popped)
//   actions    LSTM over the actions taken
//
//   classify(stack's top, buffer's front, actions)  ->  scores of SHIFT, LEFT, RIGHT
//   SHIFT  pushes the next word's x    LEFT, RIGHT  pop two, push compose(head, dependent, action)
//
// Of two words on the stack, LEFT makes the upper the head of the lower, RIGHT the lower that of the
// upper (arc-standard). An action that cannot be taken is not considered; one that must be is taken
// without asking; of equal scores the first counts. 2n - 1 actions, of which a piece of the graph takes
// the one chosen and all that must follow.
#ifndef CELLBATCH_TESTS_PARSER_PARSER_MODEL_H_
#define CELLBATCH_TESTS_PARSER_PARSER_MODEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "cells/model.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch::parser {

enum Action : int32_t { kShift = 0, kLeft = 1, kRight = 2, kNumActions = 3 };

struct Sizes {
  int32_t vocabulary = 500;
  int32_t embedding = 24;
  int32_t hidden = 32;
};

// Which of the model's types is which, and the tables they read and leave.
struct Cells {
  CellTypeId embed, buffer, stack, actions, compose, classify;
  TableId tokens, x, state, scores;
};

// TOKENS [n] -> ACTIONS [2n-1], HEADS [n] (-1: the root), SCORES [2n-1, 3] (of forced actions zeros),
// OUTPUT [H], the stack's state over the parsed sentence.
class ParserUnfolder final : public Unfolder {
 public:
  ParserUnfolder(const Cells& cells, const Sizes& sizes) : cells_(cells), sizes_(sizes) {}
  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  absl::Status Extend(const RequestInput& input, CellGraph& graph) const override;

 private:
  const Cells cells_;
  const Sizes sizes_;
};

// Random weights by `seed`.
std::shared_ptr<const Model> MakeParser(ModelId id, const Sizes& sizes, uint64_t seed);

// The state of parsing one sentence, apart from any numbers: what may be done next, and what it does.
class Transitions {
 public:
  explicit Transitions(int32_t words) : heads_(static_cast<size_t>(words), -1) {}

  bool done() const { return next_ == words() && stack_.size() == 1; }
  bool Allowed(Action action) const {
    return action == kShift ? next_ < words() : stack_.size() >= 2;
  }
  // The best allowed action; `scores` may be null where only one is allowed.
  Action Best(const double* scores) const;
  bool forced() const { return !Allowed(kLeft); }  // nothing but a SHIFT
  // Takes it. For LEFT and RIGHT: the word that is the head, and its new dependent.
  struct Arc {
    int32_t head, dependent;
  };
  Arc Take(Action action);

  int32_t words() const { return static_cast<int32_t>(heads_.size()); }
  int32_t next() const { return next_; }  // first word of the buffer
  const std::vector<int32_t>& stack() const { return stack_; }
  const std::vector<int32_t>& heads() const { return heads_; }

 private:
  int32_t next_ = 0;
  std::vector<int32_t> stack_;  // words, the top last
  std::vector<int32_t> heads_;
};

}  // namespace cellbatch::parser

#endif  // CELLBATCH_TESTS_PARSER_PARSER_MODEL_H_
