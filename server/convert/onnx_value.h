// What is known of a value inside an ONNX graph while cellbatch-convert walks through it: not numbers, but what they
// mean to a recurrent model.
//
//   constant   numbers, or sizes of which some are only known when the model is served
//   fill       one number everywhere, in a shape that nobody needs (initial states)
//   rows       what a graph input, an embedding, a layer or a head leaves, and along which dimensions it lies
//   opaque     not understood, and why: an error only if an output needs it
//
// One sequence is one request: a batch dimension counts as one, and may come and go. Values; one thread.
#ifndef CELLBATCH_SERVER_CONVERT_ONNX_VALUE_H_
#define CELLBATCH_SERVER_CONVERT_ONNX_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace cellbatch {

// A size: a number, that of a dimension (by its number in the graph), or one that is not known.
struct OnnxDim {
  static constexpr int kNumber = -1, kUnknown = -2;
  int64_t value = 0;
  int axis = kNumber;
  bool known() const { return axis == kNumber; }
  friend bool operator==(const OnnxDim& a, const OnnxDim& b) {
    return a.axis == b.axis && (a.axis != kNumber || a.value == b.value) && a.axis != kUnknown;
  }
};

// Numbers with a shape, row-major: one of the two kinds.
struct OnnxConstant {
  std::vector<int64_t> dims;  // empty: a scalar
  std::shared_ptr<const std::vector<float>> floats;
  std::shared_ptr<const std::vector<OnnxDim>> integers;
  int64_t size() const {
    return static_cast<int64_t>(floats != nullptr ? floats->size() : integers->size());
  }
};

enum class AxisRole : uint8_t {
  kOpen,   // of a graph input, before a recurrent node has said which is which
  kTime,   // the steps
  kBatch,  // one, always
  kInner,  // numbers of one step: directions, features, stacked layers
};
struct OnnxAxis {
  AxisRole role = AxisRole::kOpen;
  int64_t size = -1;  // as the file says; -1: it does not
};

// h or c of one direction of one layer.
struct OnnxBlock {
  int layer = 0;  // its number among the recurrent nodes
  bool backward = false;
  bool cell = false;  // c
  int64_t width = 0;
  friend bool operator==(const OnnxBlock& a, const OnnxBlock& b) {
    return a.layer == b.layer && a.backward == b.backward && a.cell == b.cell;
  }
};

enum class RowsStage : uint8_t {
  kInput,     // a graph input as it comes
  kEmbedded,  // rows of a table, looked up by one
  kHidden,    // what layers leave at every step: `blocks`
  kFinal,     // what they leave at their ends: `blocks`
  kHead,      // a linear layer over one of the two
};
struct OnnxRows {
  RowsStage stage = RowsStage::kInput;
  int source = 0;                 // the graph input, or the head's number
  std::string table;              // kEmbedded: its name among the scope's tables
  std::vector<OnnxBlock> blocks;  // in the order of the inner dimensions, row-major
  std::vector<int> axes;          // numbers of dimensions
};

struct OnnxValue {
  enum class Kind : uint8_t { kOpaque, kConstant, kFill, kRows };
  Kind kind = Kind::kOpaque;
  std::shared_ptr<const std::string> why;  // kOpaque
  OnnxConstant constant;
  float fill = 0;
  int64_t fill_last = -1;  // kFill: its last dimension; -1: not known
  OnnxRows rows;

  bool is_constant() const { return kind == Kind::kConstant; }
  bool is_rows() const { return kind == Kind::kRows; }
  bool is_integers() const { return is_constant() && constant.integers != nullptr; }
  bool is_floats() const { return is_constant() && constant.floats != nullptr; }

  static OnnxValue Opaque(std::string why);
  static OnnxValue Of(OnnxConstant constant);
  static OnnxValue Of(OnnxRows rows);
  static OnnxValue Fill(float number);
  static OnnxValue Integers(std::vector<OnnxDim> values);  // a vector
};

// Of an optional operand: not there (null), or zeros known to be all there is of it.
bool IsAbsentOrZero(const OnnxValue* value);

// Elements that folding constants may make in one graph; far more than any model's weights need.
inline constexpr int64_t kMaxOnnxFolded = int64_t{1} << 31;

// Constants made from constants: each element is one of the operands'. Errors say what does not fit.
class OnnxFolder {
 public:
  absl::StatusOr<OnnxConstant> Reshape(const OnnxConstant& from, absl::Span<const OnnxDim> to,
                                       bool zero_copies) const;
  absl::StatusOr<OnnxConstant> Transpose(const OnnxConstant& from, std::vector<int64_t> order);
  // Elements begin, begin + step, .. of a dimension, `count` of them.
  absl::StatusOr<OnnxConstant> Slice(const OnnxConstant& from, int64_t axis, int64_t begin,
                                     int64_t step, int64_t count);
  // Elements `indices` of a dimension; `scalar`: one, and the dimension goes.
  absl::StatusOr<OnnxConstant> Gather(const OnnxConstant& from, int64_t axis,
                                      absl::Span<const int64_t> indices, bool scalar);
  absl::StatusOr<OnnxConstant> Concat(absl::Span<const OnnxConstant* const> parts, int64_t axis);

 private:
  absl::Status Spend(int64_t elements);
  int64_t spent_ = 0;
};

// "1-based from the end" as ONNX has it: -rank <= axis < rank. Answers -1 beyond.
inline int64_t NormalAxis(int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) return -1;
  return axis < 0 ? axis + r : axis;
}

std::string DimsText(absl::Span<const int64_t> dims);  // "[4, 3]"

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CONVERT_ONNX_VALUE_H_
