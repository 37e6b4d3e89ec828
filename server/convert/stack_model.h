// What the importers find, in our words: an optional embedding, a stack of recurrent layers, an optional head, and
// which tensors fill them. The importers (import_torch, import_onnx) make one; what follows is the same for all.
// Values and plain functions; any thread.
#ifndef CELLBATCH_SERVER_CONVERT_STACK_MODEL_H_
#define CELLBATCH_SERVER_CONVERT_STACK_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/model.pb.h"

namespace cellbatch {

// A parameter of a cell and the tensors that are added up to fill it.
struct StackParameter {
  std::string name;
  std::vector<std::string> tensors;
};

// One layer's one direction: a shipped definition that reads "x", carries "h" (and "c").
struct StackChain {
  std::string cell;
  std::vector<StackParameter> parameters;
};

struct StackLayer {
  std::optional<StackChain> forward, backward;  // one at least
  int64_t input = 0;                            // what it reads, of both directions below
  int64_t hidden = 0;                           // units
  int64_t width = 0;                            // of "h" of one direction
  int64_t state = 0;                            // of "c"; 0: none
  int64_t directions() const { return (forward ? 1 : 0) + (backward ? 1 : 0); }
};

struct StackHead {
  std::string cell;          // "linear" or "linear_softmax"
  std::string weight, bias;  // tensors; no bias: empty
  int64_t classes = 0;
  bool every_step = false;  // over what the top layer left at every step, or at its end
};

struct StackModel {
  std::string kind;       // for people: "LSTM"
  std::string embedding;  // a tensor; empty: vectors of layers[0].input numbers
  int64_t vocabulary = 0;
  std::vector<StackLayer> layers;
  std::optional<StackHead> head;
  int64_t top_width() const { return layers.back().width * layers.back().directions(); }
};

// config.textproto of such a model.
disk::ModelDescription DescribeStack(const StackModel& model, const std::string& name);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_STACK_MODEL_H_
