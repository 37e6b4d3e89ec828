// What a PyTorch state_dict says it is: reads the names and shapes of its tensors, and says which
// module each belongs to, or exactly what it cannot know.
//
//   embedding.weight            [V, E]          nn.Embedding, optional
//   rnn.weight_ih_l0            [g*H, D]        nn.LSTM (g = 4, gates i f g o), nn.GRU (g = 3, gates r z n)
//   rnn.weight_hh_l0            [g*H, H]        or nn.RNN (g = 1); layers l0, l1, ..; D = E, or the
//   rnn.bias_ih_l0, bias_hh_l0  [g*H]           width of X; above l0, D = directions * H
//   rnn.weight_ih_l0_reverse    ...             the second direction
//   rnn.weight_hr_l0            [P, H]          an nn.LSTM's projection (proj_size = P), optional: then weight_hh is
//                                               [4*H, P], and P takes H's place above
//   cells.0.weight_ih, ...                      instead: nn.LSTMCell, nn.GRUCell or nn.RNNCell, one a layer, as an
//                                               nn.ModuleList names them, or a single one; each with its own H
//   head.weight, head.bias      [C, dirs*H],[C] nn.Linear, optional
//
// Prefixes are arbitrary ("encoder.rnn."). Names and shapes only: no weight is read. An embedding and a head are what
// both say they are: a matrix whose shape fits and whose name does not say so (torch_words.h) is asked for.
// Plain functions and values; any thread.
#ifndef CELLBATCH_CELLS_WEIGHTS_TORCH_NAMES_H_
#define CELLBATCH_CELLS_WEIGHTS_TORCH_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/weights/safetensors.h"

namespace cellbatch {

enum class TorchCell : uint8_t { kLstm, kGru, kRnnTanh, kRnnRelu };
const char* Name(TorchCell cell);  // "LSTM", "GRU", "RNN (tanh)", "RNN (relu)"

// What the user says where names and shapes leave it open. Empty: nothing.
struct TorchHints {
  // "encoder.rnn": where several stacks are. "low,high": modules that lie on each other, bottom to top.
  std::string rnn_prefix = {};
  std::string nonlinearity = {};          // "tanh" or "relu": an nn.RNN's file does not say
  std::string embedding = {};             // its tensor, or "none"
  std::string head = {};                  // its weight, or "none"
  std::vector<std::string> ignored = {};  // tensors, or prefixes of them, that are not served
};

// Tensors of one layer and direction. Biases are empty where the module has none.
struct TorchChain {
  std::string weight_ih, weight_hh, bias_ih, bias_hh;
  std::string weight_hr = {};  // the projection
};
struct TorchLayer {
  int64_t input = 0, hidden = 0;  // D and H
  TorchChain forward;
  std::optional<TorchChain> reverse;
};

struct TorchModel {
  TorchCell cell = TorchCell::kLstm;
  std::string prefix;             // of the recurrent module, without the last dot
  int64_t input = 0, hidden = 0;  // D and H of the lowest layer
  int64_t projection = 0;         // P; 0: none
  std::vector<TorchLayer> layers;
  std::string embedding;  // empty: X
  int64_t vocabulary = 0;
  std::string head, head_bias;  // empty: none
  int64_t classes = 0;
  bool bidirectional() const { return layers[0].reverse.has_value(); }  // the lowest layer
  // What one direction of a layer leaves.
  int64_t width(const TorchLayer& layer) const {
    return projection > 0 ? projection : layer.hidden;
  }
};

// INVALID_ARGUMENT lists everything that is ambiguous or does not fit, a line each, with the flag
// of cellbatch-convert that would settle it.
absl::StatusOr<TorchModel> ReadTorchNames(absl::Span<const SafetensorsEntry> tensors,
                                          const TorchHints& hints);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_WEIGHTS_TORCH_NAMES_H_
