#include "cells/kernels/cpu/kernel_table.h"

#include <utility>

#include "cells/device/cpu/cpu_features.h"
#include "cells/device/cpu/tile_permission.h"
#include "cells/kernels/cpu/bf16_trial.h"
#include "cells/kernels/cpu/kernel_variants.h"

namespace cellbatch::kernels {
namespace {

// AVX-512's, but for products of bf16.
const CpuKernels& WithDotProducts() {
  static const CpuKernels table = WithBf16Of<kAvx512Kernels, kAvx512Bf16Kernels>();
  return table;
}
const CpuKernels& WithTiles() {
  static const CpuKernels table = WithBf16Of<kAvx512Kernels, kAmxKernels>();
  return table;
}

bool TilesWork() {
  static const bool work = MayUseTiles() && kTilesMultiplyRight();
  return work;
}

// Asked of this CPU, whatever features somebody supposes.
bool DotProductsPay() {
  static const bool pay =
      !DetectCpuFeatures().avx512_bf16 || !IsFasterInBf16(kAvx512Kernels, WithDotProducts());
  return pay;
}

}  // namespace

std::vector<const CpuKernels*> RunnableKernels(const CpuFeatures& cpu) {
  std::vector<const CpuKernels*> tables;
  if (cpu.amx_bf16 && TilesWork()) tables.push_back(&WithTiles());
  if (cpu.avx512_bf16) tables.push_back(&WithDotProducts());
  if (cpu.avx512) tables.push_back(&kAvx512Kernels);
  if (cpu.avx512_bf16 && !DotProductsPay()) std::swap(tables.back(), tables[tables.size() - 2]);
  if (cpu.avx2_fma) tables.push_back(&kAvx2Kernels);
  tables.push_back(&kPortableKernels);
  return tables;
}

const CpuKernels& BestKernels(const CpuFeatures& cpu) { return *RunnableKernels(cpu).front(); }

}  // namespace cellbatch::kernels
