// What products on tensor cores read that is the same for all nodes, as they read it: packed weights, and rows of tables. Load time, one
// thread.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_MMA_VALUES_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_MMA_VALUES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cells/kernels/cuda/mma_tile.h"
#include "cells/kernels/cuda/step_writer.h"

namespace cellbatch {

// REQUIRES: kFp32, kTf32 or kBf16.
cuda_kernels::MmaNumbers MmaNumbersOf(Precision precision);
inline int MmaPieceDepth(cuda_kernels::MmaNumbers numbers) {
  return cuda_kernels::kMmaPieceBytes / cuda_kernels::MmaElementBytes(numbers);
}
inline int64_t MmaPieces(int64_t depth, cuda_kernels::MmaNumbers numbers) {
  return (depth + MmaPieceDepth(numbers) - 1) / MmaPieceDepth(numbers);
}
inline int64_t MmaTiles(int64_t units) {
  return (units + cuda_kernels::kMmaUnits - 1) / cuda_kernels::kMmaUnits;
}

// For Hopper's instructions: tiles of 16 units by group in packs of so many rows of tiles, whole tiles of 64 rows.
struct WgmmaPacks {
  int unit_tiles, tiles;

  static WgmmaPacks For(int groups) {
    const int unit_tiles = groups == 1 ? 4 : groups == 2 ? 2 : 1;
    return {unit_tiles, (unit_tiles * groups + 3) / 4 * 4};
  }
  int64_t Count(int64_t units) const {
    const int64_t of_pack = int64_t{unit_tiles} * cuda_kernels::kMmaUnits;
    return (units + of_pack - 1) / of_pack;
  }
  int64_t bytes() const {
    return int64_t{tiles} * cuda_kernels::kMmaUnits * cuda_kernels::kMmaPieceBytes;
  }  // of a piece
};

// The weights of those groups of a segment that read it, in the program's precision; for Hopper's instructions (`wgmma`) of all of a
// step's groups. What is beyond the units and the depth, and of other groups, is zero; so are denormals.
std::vector<float> PackMmaWeights(const SegmentPlan& segment, const std::vector<int>& groups,
                                  int32_t units, int all_groups, bool wgmma,
                                  const StepWriter& writer);

struct MmaSource {
  std::string row;  // "const unsigned short*" or "const float*", of `node`
  bool aligned = true;
};
// Where a segment's rows lie in the program's precision: what is the same for all nodes becomes a value of the step.
MmaSource MmaSourceOf(const SegmentPlan& segment, StepWriter& writer);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_MMA_VALUES_H_
