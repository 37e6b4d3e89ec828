// One table per instruction set, each from the one file built for it. Only kernel_table.cc may call
// these: on a CPU without the instructions, the functions in a table crash.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_

#include "cells/kernels/cpu/kernel_table.h"

namespace cellbatch::kernels {

// Only what they have of their own: bf16 and split fp32 by tiles (MakeTileKernels), bf16 by dot products (MakePairKernels).
extern const CpuKernels kAmxKernels;
extern const CpuKernels kAvx512Bf16Kernels;
extern const CpuKernels kAvx512Kernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kPortableKernels;

// Whether the tile registers do what kAmxKernels goes by: a few products of whole numbers, which no order of sums rounds. No
// machine that built this has had them. Where the CPU and the system allow them only.
extern bool (*const kTilesMultiplyRight)();

inline bool IsOfBf16(const PackedProduct& product) {
  return product.precision() == Precision::kBf16 || product.precision() == Precision::kFp32Split;
}

// kRest, but for products of bf16, split fp32 among them, which are kBf16's, as the name is.
template <const CpuKernels& kRest, const CpuKernels& kBf16>
CpuKernels WithBf16Of() {
  CpuKernels both = kRest;
  both.name = kBf16.name;
  both.bf16_in_pairs = kBf16.bf16_in_pairs;
  both.bf16_in_tiles = kBf16.bf16_in_tiles;
  both.bf16_rate = kBf16.bf16_rate;
  both.round_to_bf16 = kBf16.round_to_bf16;
  both.split_to_bf16 = kBf16.split_to_bf16;
  both.run_product = [](const PackedProduct& product, const ProductArgs& args, int first, int last,
                        ProductScratch* scratch) {
    const CpuKernels& kernels = IsOfBf16(product) ? kBf16 : kRest;
    kernels.run_product(product, args, first, last, scratch);
  };
  both.run_accumulators = [](const PackedProduct& product, const ProductArgs& args, int first,
                             int last, ProductScratch* scratch, float* out, int64_t out_stride) {
    const CpuKernels& kernels = IsOfBf16(product) ? kBf16 : kRest;
    kernels.run_accumulators(product, args, first, last, scratch, out, out_stride);
  };
  return both;
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_VARIANTS_H_
