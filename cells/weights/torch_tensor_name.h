// What one name of a PyTorch state_dict says, by itself. For torch_stack.cc, which reads all of them. Pure; any thread.
#ifndef CELLBATCH_CELLS_WEIGHTS_TORCH_TENSOR_NAME_H_
#define CELLBATCH_CELLS_WEIGHTS_TORCH_TENSOR_NAME_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cellbatch {

inline constexpr size_t kMaxLayers = 64;

struct RnnName {
  std::string prefix, part;
  int layer = 0;
  bool reverse = false;
};
// "encoder.rnn.weight_ih_l0_reverse" -> {"encoder.rnn", "weight_ih", 0, true}
std::optional<RnnName> ParseRnnName(std::string_view name);

// "cells.0.weight_ih" -> "cells.0": a module of one step (nn.LSTMCell and its like) has no layers in its names.
std::optional<std::string> ParseCellName(const std::string& name);

// "cells.0" -> {"cells", 0}; "0" -> {"", 0}; nothing: no element of a list.
std::optional<std::pair<std::string, int>> ParseElement(const std::string& prefix);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_TORCH_TENSOR_NAME_H_
