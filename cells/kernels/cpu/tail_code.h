// A tail (cells/program/tail_program.h) made ready for the kernel that runs any tail (tail_inl.h). Made once, at load.
//
//   2 accumulator 2    8 mul 7 5      ->     slot 1 = mul        slot 0, column's slot
//   3 tanh 2          10 mul 1 3      ->     slot 0 = sigm.tanh  accumulator 0, accumulator 2
//
// One instruction is done for several rows before the next (kTailRowsAtOnce), so values go through memory; what keeps that
// cheap is decided here:
//   - operands are read where they lie: accumulators, parameters and constants are not copied first, nor are columns whose
//     rows follow each other and that nothing is stored to before they are read for the last time
//   - numbers that a row has one of, and that only normalisations read, are read where they lie, too
//   - values share slots, as few as are alive at once: they stay in L1
//   - sigmoid(x) tanh(y) is one instruction with one division, if nothing else reads either; so are a * b + c, (a - b) * c and
//     what a normalisation does with an element (and one more sum), with the roundings of all their operations
//   - what no store needs is left out
//
// Plain values; any thread. Making one is O(operations) and allocates.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_CODE_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_CODE_H_

#include <cstdint>
#include <vector>

#include "cells/program/tail_program.h"

namespace cellbatch::kernels {

enum class TailInstructionKind : uint8_t {
  kLoad,     // slot `to` = column `column`
  kLook,     // the same, of a column that may be read where it lies: as operand kColumn `look`
  kLoadOne,  // slot `to` = the one number of column `column`, in every lane
  kLookOne,  // the same, for who reads no other lane than the first: as operand kColumn `look`
  kStore,    // column `column` = a
  kAdd,      // slot `to` = a + b; likewise the next
  kSub,
  kMul,
  kDiv,
  kMax,
  kSigmoid,  // of a; likewise the next four
  kTanh,
  kRelu,
  kExp,
  kLog,
  kSigmoidTanh,  // sigmoid(a) * tanh(b)
  kMulAdd,       // a * b + c, each rounded
  kSubMul,       // (a - b) * c, likewise
  kNormalise,  // (a - b) * c * d + e, likewise; of b and c one lane; d and e are parameters or constants
  kNormaliseAdd,  // that + f
};
inline constexpr int kTailInstructionKinds =
    static_cast<int>(TailInstructionKind::kNormaliseAdd) + 1;

// Where an operand lies.
struct TailOperand {
  enum From : uint8_t { kSlot, kAccumulator, kParameter, kConstant, kColumn };
  From from = kSlot;
  int16_t index = 0;
};
inline constexpr int kTailOperandKinds = 5;

struct TailInstruction {
  TailInstructionKind kind = TailInstructionKind::kLoad;
  TailOperand a = {}, b = {}, c = {}, d = {}, e = {}, f = {};
  int16_t to = 0;
  int16_t column = 0;
  int16_t look = 0;  // below kMaxTailColumns
};

struct TailCode {
  std::vector<TailInstruction> instructions;
  std::vector<float> constants;  // 16 of each
  int slots = 0;
};

// REQUIRES: CheckTail finds nothing wrong with `tail`.
TailCode MakeTailCode(const TailProgram& tail);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_CODE_H_
