#include "cells/kernels/cpu/kernel_table.h"

#include "cells/kernels/cpu/kernel_variants.h"

namespace cellbatch::kernels {

std::vector<const CpuKernels*> RunnableKernels(const CpuFeatures& cpu) {
  std::vector<const CpuKernels*> tables;
  if (cpu.avx512) tables.push_back(&kAvx512Kernels);
  if (cpu.avx2_fma) tables.push_back(&kAvx2Kernels);
  tables.push_back(&kPortableKernels);
  return tables;
}

const CpuKernels& BestKernels(const CpuFeatures& cpu) { return *RunnableKernels(cpu).front(); }

}  // namespace cellbatch::kernels
