// What the operators of an ONNX graph share while it is walked through once, front to back. Internal to the ONNX
// importer: onnx_graph.cc walks, onnx_plumbing.cc moves dimensions about, onnx_layers.cc knows what computes.
#ifndef CELLBATCH_SERVER_CONVERT_ONNX_SCOPE_H_
#define CELLBATCH_SERVER_CONVERT_ONNX_SCOPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/convert/onnx_file.h"
#include "server/convert/onnx_value.h"

namespace cellbatch {

// One direction of a recurrent node, gates already in our order.
struct OnnxDirection {
  bool backward = false;
  OnnxConstant w, r;                     // [g*H, I], [g*H, H]
  std::optional<OnnxConstant> b_w, b_r;  // [g*H]
};
struct OnnxLayer {
  std::string node;  // `node "x" (LSTM)`
  std::string kind;  // "LSTM", "GRU", "GRU (reset before)", "RNN (tanh)"
  std::string cell;  // our definition
  int64_t input = 0, hidden = 0;
  bool has_c = false;
  OnnxRows reads;
  std::vector<OnnxDirection> directions;  // forward first
};
struct OnnxHead {
  std::string node;
  OnnxRows reads;
  OnnxConstant weight;  // [C, F]
  std::optional<OnnxConstant> bias;
  bool softmax = false;
};
struct OnnxInput {
  std::string name;
  bool tokens = false;    // whole numbers
  std::vector<int> axes;  // as the file has them
};

struct OnnxScope {
  int64_t opset = 0;
  std::vector<OnnxAxis> axes;
  std::vector<OnnxInput> inputs;
  std::vector<OnnxLayer> layers;
  std::vector<OnnxHead> heads;
  std::map<std::string, OnnxConstant> tables;  // of embeddings
  std::vector<std::string> notes;
  OnnxFolder folder;

  int NewAxis(AxisRole role, int64_t size) {
    axes.push_back({role, size});
    return static_cast<int>(axes.size()) - 1;
  }
  OnnxAxis& axis(int number) { return axes[static_cast<size_t>(number)]; }
  const OnnxAxis& axis(int number) const { return axes[static_cast<size_t>(number)]; }
  // Says what an open dimension is, or that it was something else.
  absl::Status Bind(int axis, AxisRole role, const char* what);
};

// A node with its operands looked up.
class OnnxNode {
 public:
  OnnxNode(const onnx::Node& node, std::vector<const OnnxValue*> inputs)
      : node_(node), inputs_(std::move(inputs)) {}

  const std::string& op() const { return node_.op_type(); }
  int outputs() const { return node_.output_size(); }
  size_t num_inputs() const { return inputs_.size(); }
  // Null: an optional operand that is not there.
  const OnnxValue* in(size_t i) const { return i < inputs_.size() ? inputs_[i] : nullptr; }
  const onnx::Attribute* Find(std::string_view name) const;
  int64_t Int(std::string_view name, int64_t otherwise) const;
  std::string Text(std::string_view name, const char* otherwise) const;
  std::vector<int64_t> Ints(std::string_view name) const;
  // Whole numbers that old opsets have as an attribute and newer ones as an operand; none: not given.
  absl::StatusOr<std::optional<std::vector<int64_t>>> IntsOf(std::string_view attribute,
                                                             size_t input) const;

 private:
  const onnx::Node& node_;
  std::vector<const OnnxValue*> inputs_;
};

using OnnxValues = std::vector<OnnxValue>;
using OnnxResult = absl::StatusOr<OnnxValues>;

// `node "x" (Op)`, or by what it makes where it has no name.
std::string NodeText(const onnx::Node& node);
absl::Status OnnxWrong(std::string text);

// Operators, by files. Each answers its outputs; an error makes them opaque.
OnnxResult MoveDimensions(OnnxScope& scope,
                          const OnnxNode& node);  // Transpose, Reshape, Slice, Gather, ..
bool MovesDimensions(const std::string& op);
OnnxResult ReadRecurrent(OnnxScope& scope, const OnnxNode& node);  // LSTM, GRU, RNN
OnnxResult ReadEmbedding(OnnxScope& scope, const OnnxValue& table, const OnnxRows& tokens);
OnnxResult ReadLinear(OnnxScope& scope, const OnnxNode& node);  // MatMul, Gemm
OnnxResult ReadAdd(OnnxScope& scope, const OnnxNode& node);     // of a bias; or sizes
OnnxResult ReadSoftmax(OnnxScope& scope, const OnnxNode& node);

// onnx_rows.cc: what moving dimensions does to rows.
absl::StatusOr<OnnxRows> TransposeRows(const OnnxScope& scope, OnnxRows rows,
                                       std::vector<int64_t> order);
absl::StatusOr<OnnxRows> ReshapeRows(OnnxScope& scope, const OnnxRows& rows,
                                     std::vector<OnnxDim> to, bool zero_copies);
absl::StatusOr<OnnxRows> SqueezeRows(OnnxScope& scope, OnnxRows rows,
                                     const std::optional<std::vector<int64_t>>& axes);
absl::StatusOr<OnnxRows> UnsqueezeRows(OnnxScope& scope, OnnxRows rows, std::vector<int64_t> axes);
// Elements begin <= i < end of a dimension; `drop`: it is one, and goes.
absl::StatusOr<OnnxRows> SliceRows(OnnxScope& scope, OnnxRows rows, int64_t axis, OnnxDim begin,
                                   OnnxDim end, bool drop);
absl::StatusOr<OnnxRows> ConcatRows(OnnxScope& scope, const std::vector<const OnnxRows*>& parts,
                                    int64_t axis);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_ONNX_SCOPE_H_
