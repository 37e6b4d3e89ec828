// A cell as data: a small dataflow graph of operators with named inputs, parameters and output
// columns. Shipped cells are text files (cells/definitions); server/cell_codec turns text plus the
// shapes of the weights into a CellDefinition. Kernels never know a cell's name: the compiler
// (cells/compile) lowers the graph, the interpreter (cells/kernels/reference) defines what it means.
//
//   inputs (columns of other nodes' rows)      parameters (weights)
//        \                                      /
//         ops: value 0, value 1, ... (SSA: op i makes value i and reads earlier values only)
//                      |
//                 outputs: the columns this cell leaves in its row
//
// Immutable after Create; any thread. Create costs O(ops) and allocates; nothing else does.
// Dimensions are concrete here: an LSTM of 512 units and one of 1024 are two definitions.
#ifndef CELLBATCH_CELLS_CELL_DEFINITION_H_
#define CELLBATCH_CELLS_CELL_DEFINITION_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "cells/op_kind.h"
#include "cells/shape.h"

namespace cellbatch {

inline constexpr int kMaxOps = 512;     // operators of one cell, beside the leaves
inline constexpr int kMaxInputs = 8;    // inputs of one cell
inline constexpr int kMaxColumns = 16;  // columns one table can have
inline constexpr int kMaxParameters = 64;
inline constexpr int kMaxLeaves = kMaxInputs * kMaxColumns + kMaxParameters;  // each read once

struct Op {
  OpKind kind;
  std::array<ValueId, 3> args = {};  // unused ones invalid
  std::array<int32_t, 2> attr = {};
  Shape shape = {};  // given for leaves; Create infers (and overwrites) the others
  ElementType type = ElementType::kFp32;  // likewise
};

struct Column {
  std::string name;
  ElementType type = ElementType::kFp32;
  int32_t width = 1;                                                    // elements
  int64_t bytes() const { return int64_t{width} * SizeInBytes(type); }  // of a row
  friend bool operator==(const Column&, const Column&) = default;
};

// "{h FP32[3], c FP32[3]}", for error texts.
std::string ColumnsText(absl::Span<const Column> columns);

enum class Arity : uint8_t {
  kOne,  // the row of exactly one node (or zeros)
  kSum,  // the sum of the rows of any number of nodes, none included, added in link order (fp32 columns)
};

struct Input {
  std::string name;
  std::vector<Column> reads;  // columns read from the row; all lie in the table the source writes
  Arity arity = Arity::kOne;
};

struct Parameter {
  std::string name;
  Shape shape;
  ElementType type = ElementType::kFp32;
};

struct Output {
  std::string column;
  ValueId value;
};

class CellDefinition {
 public:
  // `carry`: the input that a node of a chain reads from the node before it; it must be kOne and
  // read only columns that this cell leaves, with the same types and widths.
  // Fails with INVALID_ARGUMENT naming the cell, the op and both values that disagree; operators by `op_names` where
  // they are given, else by their number.
  static absl::StatusOr<CellDefinition> Create(std::string name, std::vector<Op> ops,
                                               std::vector<Input> inputs,
                                               std::vector<Parameter> parameters,
                                               std::vector<Output> outputs,
                                               std::optional<InputId> carry,
                                               absl::Span<const std::string> op_names = {});

  const std::string& name() const { return name_; }
  absl::Span<const Op> ops() const { return ops_; }
  const Op& op(ValueId v) const { return ops_[static_cast<size_t>(v.value())]; }
  // What the definition's text calls them, for people; empty where it was not written as text.
  absl::Span<const std::string> op_names() const { return op_names_; }
  absl::Span<const Input> inputs() const { return inputs_; }
  absl::Span<const Parameter> parameters() const { return parameters_; }
  absl::Span<const Output> outputs() const { return outputs_; }
  // The columns of the row this cell leaves, in order of outputs().
  absl::Span<const Column> columns() const { return columns_; }
  std::optional<InputId> carry() const { return carry_; }
  // Floating-point operations of one node: 2 per multiply-add of products, 1 per element otherwise.
  int64_t flops() const { return flops_; }

 private:
  CellDefinition() = default;

  std::string name_;
  std::vector<Op> ops_;
  std::vector<std::string> op_names_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
  std::vector<Output> outputs_;
  std::vector<Column> columns_;
  std::optional<InputId> carry_;
  int64_t flops_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_CELL_DEFINITION_H_
