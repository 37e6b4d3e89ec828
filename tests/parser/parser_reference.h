// The same parser one sentence, one action at a time, in double, written from the equations; nothing of
// the product is used but the weights.
#ifndef CELLBATCH_TESTS_PARSER_PARSER_REFERENCE_H_
#define CELLBATCH_TESTS_PARSER_PARSER_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "cells/model.h"

namespace cellbatch::parser {

struct Parsed {
  std::vector<int32_t> actions, heads;
  std::vector<double> scores;  // [actions, 3]; of forced actions zeros
  std::vector<double> output;
  double least_margin = 1e9;  // between the best and the next allowed score, over all choices
};

Parsed Reference(const Model& model, const std::vector<int32_t>& words);

}  // namespace cellbatch::parser

#endif  // CELLBATCH_TESTS_PARSER_PARSER_REFERENCE_H_
