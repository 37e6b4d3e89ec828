// What a cell definition becomes: a short list of steps over the rows of a batched task. Plain data, no device, no
// weights; a device packs the weights that the steps name and runs them in order. How much one step holds is the
// device's (program_limits.h), what it means is not.
//
//   LSTM:    product   4 groups, segments x, h; tail: gates and state on the accumulators -> columns h, c
//   gru_v1:  product   2 groups (r, z), segments x, h; tail: r*h, z -> scratch
//            product   1 group (n), segments x, r*h;   tail: (1-z)*n + z*h -> column h
//   decode:  product   logits -> scratch;  plain argmax -> column word;  plain softmax -> column p
//   greedy:  product   its largest -> column word                  (fuse_arg_max.h: nobody else reads the logits)
//   child sum: sum     rows of the children -> scratch;  product ...
//
// Places say where a step's operands lie. Scratch is a row of floats per node of the task, alive during the task.
#ifndef CELLBATCH_CELLS_PROGRAM_CELL_PROGRAM_H_
#define CELLBATCH_CELLS_PROGRAM_CELL_PROGRAM_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/ids.h"
#include "cells/precision.h"
#include "cells/program/program_limits.h"
#include "cells/program/tail_program.h"

namespace cellbatch {

enum class PlaceKind : uint8_t {
  kInput,      // column `column` (of `reads`) of input `index`, arity kOne
  kOutput,     // output column `index`
  kScratch,    // the node's scratch row
  kTableRow,   // the row of lookup `index` that the node's token chose
  kParameter,  // parameter `index`: the same for every node
};

// `offset` elements (4 bytes each) behind the start of that row.
struct Place {
  PlaceKind kind = PlaceKind::kScratch;
  int32_t index = 0;
  int32_t column = 0;
  int64_t offset = 0;
  friend bool operator==(const Place&, const Place&) = default;
};

// Elements of a parameter: (u, k) is data[offset + u * unit_stride + k * depth_stride].
struct ParameterView {
  ParameterId parameter = {};
  int64_t offset = 0;
  int64_t unit_stride = 1;
  int64_t depth_stride = 1;
  friend bool operator==(const ParameterView&, const ParameterView&) = default;
};

// Whether the definition has no such parameter: it is one that was prepared (PreparedParameter).
inline bool IsPrepared(const ParameterView& view, const CellDefinition& cell) {
  return static_cast<size_t>(view.parameter.value()) >= cell.parameters().size();
}

// One number for all units, told apart by its bits: +0 is not -0, and an INT32 travels as the float of its bits.
struct Constant {
  uint32_t bits = 0;
  float value() const { return std::bit_cast<float>(bits); }
  friend bool operator==(const Constant&, const Constant&) = default;
};

// What each unit of a product has, the same for every node.
using UnitValues = std::variant<ParameterView, Constant>;

// Rows of a table chosen by an int32; an index outside [0, rows) is clamped.
struct LookupSpec {
  ParameterId table;
  int64_t offset = 0;  // of row 0
  int64_t stride = 0;  // between rows
  int32_t rows = 0;
  Place token;
};

// Scratch at `to` = sum over a kSum input's rows of one of its columns.
struct SumStep {
  InputId input;
  int32_t column = 0;
  int32_t width = 0;
  Place to;
};

// Reads the tokens of a lookup; kTableRow places of it hold afterwards.
struct IndexStep {
  int32_t lookup = 0;
};

// One input of a product: `depth` elements of the row at `source`.
struct SegmentPlan {
  Place source;
  int32_t depth = 0;
  std::vector<std::optional<ParameterView>> weights;  // by group; none: that group does not read it
};

// accumulator of group g = sum of bias[g], then the segments that have weights for g, in order; then the tail.
struct ProductStep {
  int32_t units = 0;
  std::vector<SegmentPlan> segments;
  std::vector<std::vector<UnitValues>>
      bias;  // by group: there are as many groups; added up at load
  TailProgram tail;
  std::vector<Place> columns;             // of the tail
  std::vector<ParameterView> parameters;  // of the tail
  // Set: the tail's only column is stored nowhere (`columns` is empty); the number of the unit with the largest of it,
  // of equals the lowest, goes here.
  std::optional<Place> arg_max = {};
  // By group, or empty: where a sum lies that was begun elsewhere (cells/hoisted_sum.h), `units` floats from there; it
  // takes the place of that group's bias. None: the bias.
  std::vector<std::optional<Place>> starts = {};

  int groups() const { return static_cast<int>(bias.size()); }  // none: element-wise only
};

// Empty if `step` is well formed and within `limits`, else what is wrong with it. For our own compiler.
std::string CheckProduct(const ProductStep& step, const ProgramLimits& limits);

// What is rare: row by row, by the book.
enum class PlainKind : uint8_t {
  kCopy,             // any 4-byte elements
  kBroadcast,        // [1] -> all of the result
  kMatMulByRows,     // by a value, or of a matrix: y[m][n] = x[m] . w[n]
  kMatMulByColumns,  // the same by a value turned round: y[m][n] = sum over k of x[m][k] w[k][n]
  kTranspose,
  kSlice,  // columns begin .. of a matrix
  kSum,
  kMean,
  kSumSquares,   // of one value; of two: of what the first is above the second, which is one number
  kMeanSquares,  // likewise
  kSoftmax,
  kArgMax,
};

struct PlainStep {
  PlainKind kind = PlainKind::kCopy;
  ElementType type = ElementType::kFp32;  // of the result
  std::vector<Place> args;
  std::vector<Shape> shapes;          // of the arguments
  std::vector<int64_t> strides = {};  // products: between the rows of the arguments, in elements
  int32_t begin = 0;                  // kSlice
  Shape shape;                        // of the result
  Place to;
};

using Step = std::variant<SumStep, IndexStep, ProductStep, PlainStep>;

// What parameters and constants alone make, computed once, at load: to the steps it is one more parameter, behind those of
// the definition (number i: parameter `definition.parameters().size() + i`).
struct PreparedParameter {
  int32_t width = 0;  // elements
  ElementType type = ElementType::kFp32;
  std::vector<ParameterId> of;  // what it is made of, without constants
};

struct CellProgram {
  std::vector<Step> steps;
  std::vector<LookupSpec> lookups;
  int64_t scratch_width = 0;  // floats a node
  std::vector<PreparedParameter> prepared = {};
  // What makes them: a program of one node, which reads no input and leaves them in its outputs. Null: there are none.
  std::shared_ptr<const CellProgram> at_load = {};
  Precision precision =
      Precision::kFp32;  // of its products; what is made at load has one of its own
};

// For tests and logs: a place; one line a step; the same with those at load before them.
std::string Describe(const Place& place);
std::string DescribeSteps(const CellProgram& program);
std::string Describe(const CellProgram& program);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_PROGRAM_CELL_PROGRAM_H_
