// A request of TOKENS alone, as an unfolder gets it. Borrows `tokens`.
#ifndef CELLBATCH_TESTS_GRAPHS_WORDS_INPUT_H_
#define CELLBATCH_TESTS_GRAPHS_WORDS_INPUT_H_

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cells/unfold/request_input.h"

namespace cellbatch {

inline RequestInput Words(const std::vector<int32_t>& tokens,
                          std::vector<std::string_view> outputs = {}) {
  RequestInput input;
  input.tensors.push_back({"TOKENS",
                           WireType::kInt32,
                           {static_cast<int64_t>(tokens.size())},
                           {reinterpret_cast<const std::byte*>(tokens.data()), tokens.size() * 4}});
  input.outputs = std::move(outputs);
  return input;
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GRAPHS_WORDS_INPUT_H_
