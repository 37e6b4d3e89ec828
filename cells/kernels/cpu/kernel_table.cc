#include "cells/kernels/cpu/kernel_table.h"

#include "cells/kernels/cpu/kernel_variants.h"

namespace cellbatch::kernels {
namespace {

const CpuKernels& OfAvx512(Precision precision) {
  return precision == Precision::kBf16 ? kAvx512Bf16Kernels : kAvx512Kernels;
}

// AVX-512's, but for products of bf16.
const CpuKernels& WithDotProducts() {
  static const CpuKernels table = [] {
    CpuKernels both = kAvx512Kernels;
    both.name = kAvx512Bf16Kernels.name;
    both.bf16_in_pairs = true;
    both.round_to_bf16 = kAvx512Bf16Kernels.round_to_bf16;
    both.run_product = [](const PackedProduct& product, const ProductArgs& args, int first,
                          int last, ProductScratch* scratch) {
      OfAvx512(product.precision()).run_product(product, args, first, last, scratch);
    };
    both.run_accumulators = [](const PackedProduct& product, const ProductArgs& args, int first,
                               int last, ProductScratch* scratch, float* out, int64_t out_stride) {
      const CpuKernels& kernels = OfAvx512(product.precision());
      kernels.run_accumulators(product, args, first, last, scratch, out, out_stride);
    };
    return both;
  }();
  return table;
}

}  // namespace

std::vector<const CpuKernels*> RunnableKernels(const CpuFeatures& cpu) {
  std::vector<const CpuKernels*> tables;
  if (cpu.avx512_bf16) tables.push_back(&WithDotProducts());
  if (cpu.avx512) tables.push_back(&kAvx512Kernels);
  if (cpu.avx2_fma) tables.push_back(&kAvx2Kernels);
  tables.push_back(&kPortableKernels);
  return tables;
}

const CpuKernels& BestKernels(const CpuFeatures& cpu) { return *RunnableKernels(cpu).front(); }

}  // namespace cellbatch::kernels
