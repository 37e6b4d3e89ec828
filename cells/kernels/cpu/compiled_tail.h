// A tail compiled to machine code when its product is packed: values stay in registers from operation to operation, where the
// kernel that runs any tail (tail_inl.h) takes every value through memory and finds out every operation anew. For cells that
// no one wrote a kernel for: a text file that the server has never seen.
//
//   tail code                               AVX-512: for four rows at once (abreast.h says why), then for each that is left;
//                                           of no product: for four blocks of one row, which share what it has one of.
//                                           AVX2, whose registers are half as many and half as long: for each row alone
//   slot 0 = sigmoid  accumulator 1         zmm4..7   = accumulator 1 of each;   ... 16 instructions, four times each
//   slot 1 = mul      slot 0, column 0      zmm4..7   = zmm4..7 * [column 0 of each row]
//   store    column 1, slot 1               [column 1 of each row] = zmm4..7
//
// Operations, their order and so all bits (but a NaN's) are those of the kernel that runs any tail with that instruction set,
// which still runs blocks that are no whole one, every tail where there is neither or no memory may be executed (a system that
// forbids it), and all of them under sanitizers, which cannot see into this.
//
// Memory is written, then made executable, and never both. Immutable: any thread may run it. Making one: load time.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_COMPILED_TAIL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_COMPILED_TAIL_H_

#include <cstdint>
#include <memory>

#include "cells/kernels/cpu/tail_code.h"
#include "cells/kernels/cpu/tail_isa.h"

namespace cellbatch::kernels {

class CompiledTail {
 public:
  // Blocks of 16 units, of rows that follow each other in the lists.
  struct Call {
    const float* accumulators;   // of the first row: [groups][16]; by rows only
    int64_t accumulator_stride;  // bytes from row to row
    const float* parameters;     // those units of parameter 0
    // [kMaxTailColumns][column_rows]: where a column's row starts, from the first row on.
    const float* const* rows;
    int64_t unit_bytes;  // from there to those units
    int64_t num_rows;    // at least 1
    int64_t num_blocks;  // likewise; 1 by rows
  };
  struct Layout {
    int64_t parameter_bytes;  // from one parameter to the next
    int column_rows;          // of Call::rows
    bool by_blocks;           // a row's blocks lie abreast, not a block's rows
  };

  // Whether tails are compiled for it: it is one, and no sanitizer is at work.
  static bool IsUseful(TailIsa isa);

  // REQUIRES: `isa` is one. Only a CPU that has it may run what this makes. Null: the system gives no memory to execute.
  static std::unique_ptr<CompiledTail> Make(const TailCode& code, TailIsa isa,
                                            const Layout& layout);
  ~CompiledTail();
  CompiledTail(const CompiledTail&) = delete;
  CompiledTail& operator=(const CompiledTail&) = delete;

  void Run(const Call& call) const { run_(&call); }
  bool by_blocks() const { return by_blocks_; }

 private:
  class Code;
  CompiledTail(std::unique_ptr<Code> code, bool by_blocks);

  std::unique_ptr<Code> code_;
  bool by_blocks_;
  void (*run_)(const Call* call);
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_COMPILED_TAIL_H_
