// Walks through an ONNX graph once, front to back, and finds the stack of recurrent layers in it.
//
//   OnnxFile --WalkOnnx--> OnnxScope (layers, heads, tables) + a value for each output --FindStack--> StackModel
//
// Nothing is guessed: an operator, attribute or operand that is not understood makes what it leaves opaque, and an
// output that needs it is refused by the node's name. One thread; O(nodes) and memory for the weights.
#ifndef CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_H_
#define CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/convert/onnx_scope.h"
#include "server/convert/stack_model.h"

namespace cellbatch {

inline constexpr int kMaxOnnxParts =
    1 << 16;  // nodes, initializers, inputs and outputs of a graph, each

struct OnnxWalked {
  OnnxScope scope;
  std::vector<std::pair<std::string, OnnxValue>> outputs;  // by name
};

// `zeros`: graph inputs that are always zeros. INVALID_ARGUMENT: no graph at all (too many nodes, a value made twice);
// what is not understood is in the outputs.
absl::StatusOr<OnnxWalked> WalkOnnx(const OnnxFile& file, const std::vector<std::string>& zeros);

struct OnnxStack {
  StackModel model;
  std::map<std::string, OnnxConstant> tensors;
  std::vector<std::string> notes;
};

// `ignored`: outputs that nobody needs. INVALID_ARGUMENT: every output that is not served, a line each.
absl::StatusOr<OnnxStack> FindStack(const OnnxWalked& walked,
                                    const std::vector<std::string>& ignored);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_ONNX_GRAPH_H_
