// Fills a kernel table from the templates, for one Vec and Tiling. Included only by the one file of
// each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_

#include "cells/kernels/cpu/each_panel_inl.h"
#include "cells/kernels/cpu/element_wise_inl.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/mat_mul_inl.h"
#include "cells/kernels/cpu/reductions_inl.h"
#include "cells/kernels/cpu/tiled_inl.h"

namespace cellbatch::kernels {

// S: how products are multiplied (each_panel_inl.h).
template <class V, class Tiling, class S = OneByOne>
void RunProduct(const PackedProduct& product, const ProductArgs& args, int first_panel,
                int last_panel, ProductScratch* scratch) {
  const bool stores = args.largest == nullptr;
  ForEachPanel<V, Tiling, S>(
      product, args, first_panel, last_panel, scratch, stores,
      [stores](auto& run, int panel) { stores ? run.Tail(panel) : run.TailLargest(panel); });
}

template <class V, class Tiling, class S = OneByOne>
void RunAccumulators(const PackedProduct& product, const ProductArgs& args, int first_panel,
                     int last_panel, ProductScratch* scratch, float* out, int64_t out_stride) {
  ForEachPanel<V, Tiling, S>(product, args, first_panel, last_panel, scratch, false,
                             [&](auto& run, int) { run.CopyOut(out, out_stride); });
}

template <class V>
void CopyRows(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    __builtin_memcpy(out.Row(r), in.Row(r), static_cast<size_t>(width) * sizeof(float));
  }
}

// As floats, or two in a word.
template <class V, bool kPairs>
void RoundRowsToBf16(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  constexpr int kPacked = kPairs ? 2 : 1;
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const from = in.Row(r);
    float* const to = out.Row(r);
    int32_t i = 0;
    if constexpr (kPairs && requires { V::StoreTwoAsPairs; }) {
      for (; i + 2 * kLanes <= width; i += 2 * kLanes) {
        V::StoreTwoAsPairs(V::Load(from + i), V::Load(from + i + kLanes), to + i / kPacked);
      }
    }
    for (; i + kLanes <= width; i += kLanes) {
      const V rounded = V::RoundToBf16(V::Load(from + i));
      if constexpr (kPairs) {
        rounded.StorePairs(to + i / kPacked);
      } else {
        rounded.Store(to + i);
      }
    }
    const int32_t rest = width - i, written = (rest + rest % 2) / kPacked;
    if (rest == 0) continue;
    const V rounded = V::RoundToBf16(V::LoadPart(from + i, rest));  // zeros behind it stay zeros
    if constexpr (kPairs) {
      rounded.StorePairs(to + i / kPacked, written);
    } else {
      rounded.StorePart(to + i, written);
    }
  }
}

// Row r of `in` as the sum of two of bf16: pairs of what it is rounded to, then pairs of what is left.
template <class V>
void SplitRowsToBf16(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  const int32_t pairs = (width + 1) / 2;
  const V most = V::Broadcast(kLargestBf16), least = V::Broadcast(-kLargestBf16);
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const from = in.Row(r);
    float *const upper = out.Row(r), *const lower = upper + pairs;
    for (int32_t i = 0; i < width; i += kLanes) {
      const int32_t rest = width - i, written = rest < kLanes ? (rest + 1) / 2 : kLanes / 2;
      const V x = rest < kLanes ? V::LoadPart(from + i, rest) : V::Load(from + i);
      const V first = V::Max(least, V::Min(most, V::RoundToBf16(x)));  // NaN stays
      first.StorePairs(upper + i / 2, written);
      V::RoundToBf16(x - first).StorePairs(lower + i / 2, written);
    }
  }
}

// Only what a table has of its own that multiplies bf16 in pairs, by dot products: its functions run products of
// Precision::kBf16 and no others, and what is absent here is another table's.
template <class V, class Tiling, class S = Bf16Pairs>
constexpr CpuKernels MakePairKernels(const char* name) {
  CpuKernels pairs = {};
  pairs.name = name;
  pairs.packing = {Tiling::kOrder, V::kTailIsa};
  pairs.bf16_in_pairs = true;
  pairs.bf16_rate = 1;
  pairs.run_product = RunProduct<V, Tiling, S>;
  pairs.run_accumulators = RunAccumulators<V, Tiling, S>;
  pairs.round_to_bf16 = RoundRowsToBf16<V, true>;
  return pairs;
}

// The same by tile registers, of kFp32Split, too.
template <class V, class Tiling, class Tiles>
constexpr CpuKernels MakeTileKernels(const char* name) {
  CpuKernels tiles = MakePairKernels<V, Tiling, ByTiles<Tiles>>(name);
  tiles.bf16_in_tiles = true;
  tiles.bf16_rate = 8;
  tiles.split_to_bf16 = SplitRowsToBf16<V>;
  return tiles;
}

template <class V, class Tiling>
constexpr CpuKernels MakeKernels(const char* name) {
  return {.name = name,
          .packing = {Tiling::kOrder, V::kTailIsa},
          .block_of_k = Tiling::kSpreads ? Tiling::kSpreadBlock : kShortBlock,
          .ways = [](int rows) { return WaysOf<Tiling>(rows, kPanelColumns); },
          .bf16_in_pairs = false,
          .bf16_in_tiles = false,
          .bf16_rate = 1,
          .run_product = RunProduct<V, Tiling>,
          .run_accumulators = RunAccumulators<V, Tiling>,
          .sum_rows = SumRows<V>,
          .sum_elements = SumElements<V>,
          .sum_squares = SumSquares<V>,
          .broadcast = BroadcastRows<V>,
          .arg_max = ArgMax<V>,
          .mat_mul_by_rows = MatMulByRows<V>,
          .mat_mul_by_columns = MatMulByColumns<V, Tiling>,
          .element_wise = ElementWise<V>,
          .round_to_bf16 = RoundRowsToBf16<V, false>,
          .split_to_bf16 = nullptr,
          .copy_rows = CopyRows<V>};
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_
