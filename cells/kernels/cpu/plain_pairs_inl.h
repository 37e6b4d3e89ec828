// One table of plain_pairs.h. Included only by the file of each.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_INL_H_

#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/plain_pairs.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_portable.h"

namespace cellbatch::kernels {

// The portable table with what pairs have of their own, for products of bf16 only, which are cut as they cut them.
template <class Tiling>
CpuKernels PlainPairs(const char* name) {
  const CpuKernels pairs = MakePairKernels<Vec, Tiling>(name);
  CpuKernels made = *RunnableKernels(CpuFeatures()).front();
  made.name = name;
  made.packing.order = Tiling::kOrder;
  made.block_of_k = Tiling::kSpreads ? Tiling::kSpreadBlock : kShortBlock;
  made.ways = [](int rows) { return WaysOf<Tiling>(rows, kPanelColumns); };
  made.bf16_in_pairs = true;
  made.run_product = pairs.run_product;
  made.run_accumulators = pairs.run_accumulators;
  made.round_to_bf16 = pairs.round_to_bf16;
  return made;
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PLAIN_PAIRS_INL_H_
