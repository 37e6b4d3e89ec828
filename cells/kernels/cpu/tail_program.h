// The element-wise tail of a product as data: what happens to the accumulators while they are hot,
// and where it goes.
//
// A program is a list of operations in single-assignment form: operation i makes value i, a vector
// over the units of one row. It is run for 16 units of every row at a time. Kinds are arithmetic,
// never cells: an LSTM is a program whose stores happen to compute what ClassifyTail recognises,
// and then a specialised kernel runs instead of the interpreter; nothing but speed and the last
// bits depends on it.
//
//   0 accumulator 0    2 accumulator 2    4 mul 1 3        7 sigmoid 6    ...
//   1 sigmoid 0        3 tanh 2           5 column 0       8 mul 7 5      14 store 10 -> column 1
//                                         6 accumulator 1  9 ...          15 store 13 -> column 2
//
// Plain values; any thread. CheckTail is for our own lowering: it says what is wrong with a
// program, or nothing.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_PROGRAM_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

namespace cellbatch::kernels {

inline constexpr int kMaxTailOps = 64;
inline constexpr int kMaxTailColumns = 16;
inline constexpr int kMaxGroups = 5;  // a binary TreeLSTM has i, o, u and two forget gates
inline constexpr int kTailRowsAtOnce =
    8;  // rows the interpreter takes at a time, so that its values stay in L1

enum class TailOpKind : uint8_t {
  kAccumulator,  // value = accumulator of group `index`
  kColumn,       // value = column `index` at this row
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

// What a tail computes, if it is one that has a kernel of its own.
enum class TailShape : uint8_t {
  kGeneral,   // the interpreter
  kIdentity,  // out = a
  kSigmoid,   // out = f(a), one store
  kTanh,
  kRelu,
  kGatedCell,    // c' = sigmoid(f)*c + sigmoid(i)*tanh(g); h' = sigmoid(o)*tanh(c')
  kGatedUpdate,  // n = tanh(m + sigmoid(r)*s); h' = n + sigmoid(z)*(h - n), or (1-z)*n + z*h
};

// The shape and who plays which part. Unused parts are -1.
struct TailMatch {
  TailShape shape = TailShape::kGeneral;
  // Gated cell: i f g o; gated update: r z m s; one-liners: a.
  int group[kMaxGroups] = {-1, -1, -1, -1, -1};
  int in = -1;    // column read: c, or h
  int out = -1;   // column stored: h'
  int out2 = -1;  // gated cell: c'
};

// Recognises a program by its structure: order of operations, operand order of + and *, and group
// numbers are free.
TailMatch ClassifyTail(const TailProgram& tail);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_PROGRAM_H_
