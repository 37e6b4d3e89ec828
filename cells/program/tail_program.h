// The element-wise tail of a product as data: what happens to the accumulators while they are hot,
// and where it goes. Part of a cell's program (cell_program.h); any device runs it.
//
// A tail is a list of operations in single-assignment form: operation i makes value i, a vector
// over the units of one row. Kinds are arithmetic, never cells: an LSTM is a tail whose stores
// happen to compute what a device may recognise (cells/kernels/cpu/tail_shape.h); nothing but speed
// and the last bits depends on it.
//
//   0 accumulator 0    2 accumulator 2    4 mul 1 3        7 sigmoid 6    ...
//   1 sigmoid 0        3 tanh 2           5 column 0       8 mul 7 5      14 store 10 -> column 1
//                                         6 accumulator 1  9 ...          15 store 13 -> column 2
//
// Plain values; any thread. CheckTail is for our own lowering: it says what is wrong with a
// tail, or nothing. How long a tail may be is the device's (program_limits.h).
#ifndef CELLBATCH_CELLS_PROGRAM_TAIL_PROGRAM_H_
#define CELLBATCH_CELLS_PROGRAM_TAIL_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch {

enum class TailOpKind : uint8_t {
  kAccumulator,  // value = accumulator of group `index`
  kColumn,       // value = column `index` at this row
  kScalar,       // value = the one number of column `index` at this row, the same for every unit
  kParameter,    // value = parameter vector `index`, the same for every row
  kConstant,     // value = `constant`
  kAdd,          // a + b; likewise the next four
  kSub,
  kMul,
  kDiv,
  kMax,
  kSigmoid,  // of a; likewise the next four
  kTanh,
  kRelu,
  kExp,
  kLog,
  kStore,  // column `index` at this row = a; makes no value; only stores may follow a store
};

// How many earlier values an operation reads: 0, 1 or 2.
int NumOperands(TailOpKind kind);

struct TailOp {
  TailOpKind kind = TailOpKind::kConstant;
  int16_t a = -1;  // operands: numbers of earlier operations
  int16_t b = -1;
  int16_t index = 0;
  float constant = 0.0f;
};

struct TailProgram {
  std::vector<TailOp> ops;
  int num_columns = 0;     // columns the caller binds, loads and stores numbered together
  int num_parameters = 0;  // vectors as long as a row has units
};

// Empty if `tail` is well formed for `groups` accumulators, else what is wrong with which
// operation.
std::string CheckTail(const TailProgram& tail, int groups);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_PROGRAM_TAIL_PROGRAM_H_
