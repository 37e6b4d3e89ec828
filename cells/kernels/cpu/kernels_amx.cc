// Built with the flags of kernels_avx512.cc; called only where the CPU and the system have those and tile registers, which
// this process may use (cells/device/cpu/tile_permission.h).
#include "cells/kernels/cpu/amx_tiles.h"
#include "cells/kernels/cpu/kernel_table_inl.h"
#include "cells/kernels/cpu/kernel_variants.h"
#include "cells/kernels/cpu/tile_trial.h"
#include "cells/kernels/cpu/tiled_inl.h"
#include "cells/kernels/cpu/tiling.h"
#include "cells/kernels/cpu/vec_avx512.h"

namespace cellbatch::kernels {
namespace {

bool TilesAreRight() { return TileTrial<AmxTiles>().IsRight(); }

}  // namespace

const CpuKernels kAmxKernels = MakeTileKernels<Vec, Avx512Tiling, AmxTiles>("avx512_amx");

bool (*const kTilesMultiplyRight)() = TilesAreRight;

}  // namespace cellbatch::kernels
