// Which tails (cells/program/tail_program.h) have a kernel of their own here, and who plays which part in them. Any other
// is run instruction by instruction (tail_code.h); a kernel of its own is only faster.
//
// Plain values; any thread.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_SHAPE_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_SHAPE_H_

#include <cstdint>

#include "cells/kernels/cpu/product_limits.h"
#include "cells/program/tail_program.h"

namespace cellbatch::kernels {

// What a tail computes, if it is one that has a kernel of its own.
enum class TailShape : uint8_t {
  kGeneral,   // instruction by instruction
  kIdentity,  // each group's sums as they are, to a column of its own
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
  int in = -1;                                    // column read: c, or h
  int out = -1;                                   // column stored: h', or of a one-liner
  int out2 = -1;                                  // gated cell: c'
  int stored[kMaxGroups] = {-1, -1, -1, -1, -1};  // identity: the column of each group
};

// Recognises a program by its structure: order of operations, operand order of + and *, and group
// numbers are free.
TailMatch ClassifyTail(const TailProgram& tail);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_SHAPE_H_
