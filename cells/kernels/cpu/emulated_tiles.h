// For tests: the kernels of a CPU with tile registers (AMX) on any machine, the registers in plain arithmetic and all else
// portable. What is not tested here is what kernels_amx.cc alone has: four instructions (amx_tiles.h), which are asked for a
// few products before they are used (tile_trial.h).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_EMULATED_TILES_H_
#define CELLBATCH_CELLS_KERNELS_CPU_EMULATED_TILES_H_

#include <vector>

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

// "emulated_tiles".
const CpuKernels& EmulatedTiles();

// What this machine runs, and that.
std::vector<const CpuKernels*> RunnableAndEmulated();

// The same, with one multiplication of tiles left out on purpose: that of number `at` of those that add to sums of register
// `sums` (tiled_inl.h draws which those are). One thread at a time.
const CpuKernels& TilesThatSkip(int sums, int64_t at);
// How many of those there were since.
int64_t TilesMet();

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_EMULATED_TILES_H_
