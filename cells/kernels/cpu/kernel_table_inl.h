// Fills a kernel table from the templates, for one Vec and Tiling. Included only by the one file of
// each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_

#include "cells/kernels/cpu/element_wise_inl.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/mat_mul_inl.h"
#include "cells/kernels/cpu/product_inl.h"
#include "cells/kernels/cpu/reductions_inl.h"

namespace cellbatch::kernels {

// What is done with a panel's sums.
template <class V>
auto TailsOf(const ProductArgs& args) {
  return [&args](auto& run, int panel) {
    args.largest == nullptr ? run.Tail(panel) : run.TailLargest(panel);
  };
}
template <class V>
auto CopiesTo(float* out, int64_t out_stride) {
  return [out, out_stride](auto& run, int panel) { run.CopyOut(panel, out, out_stride); };
}

template <class V, class Tiling>
void RunProduct(const PackedProduct& product, const ProductArgs& args, int first_panel,
                int last_panel, ProductScratch* scratch) {
  ForEachPanel<V, Tiling>(product, args, first_panel, last_panel, scratch, TailsOf<V>(args));
}

template <class V, class Tiling>
void RunAccumulators(const PackedProduct& product, const ProductArgs& args, int first_panel,
                     int last_panel, ProductScratch* scratch, float* out, int64_t out_stride) {
  ForEachPanel<V, Tiling>(product, args, first_panel, last_panel, scratch,
                          CopiesTo<V>(out, out_stride));
}

template <class V>
void CopyRows(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    __builtin_memcpy(out.Row(r), in.Row(r), static_cast<size_t>(width) * sizeof(float));
  }
}

template <class V>
void RoundRowsToBf16(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const from = in.Row(r);
    float* const to = out.Row(r);
    int32_t i = 0;
    for (; i + kLanes <= width; i += kLanes) V::RoundToBf16(V::Load(from + i)).Store(to + i);
    const int32_t rest = width - i;  // zeros behind it stay zeros
    if (rest > 0) V::RoundToBf16(V::LoadPart(from + i, rest)).StorePart(to + i, rest + rest % 2);
  }
}

template <class V>
void RoundRowsToPairs(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out) {
  for (int32_t r = 0; r < num_rows; ++r) {
    const float* const from = in.Row(r);
    float* const to = out.Row(r);
    int32_t i = 0;
    for (; i + kLanes <= width; i += kLanes) {
      V::RoundToBf16(V::Load(from + i)).StorePairs(to + i / 2);
    }
    const int32_t rest = width - i;
    if (rest == 0) continue;
    V::RoundToBf16(V::LoadPart(from + i, rest)).StorePairs(to + i / 2, (rest + 1) / 2);
  }
}

template <class V, class Tiling>
void RunPairs(const PackedProduct& product, const ProductArgs& args, int first_panel,
              int last_panel, ProductScratch* scratch) {
  ForEachPanelOf<V, Tiling, Bf16Pairs>(product, args, first_panel, last_panel, scratch,
                                       TailsOf<V>(args));
}

template <class V, class Tiling>
void RunPairAccumulators(const PackedProduct& product, const ProductArgs& args, int first_panel,
                         int last_panel, ProductScratch* scratch, float* out, int64_t out_stride) {
  ForEachPanelOf<V, Tiling, Bf16Pairs>(product, args, first_panel, last_panel, scratch,
                                       CopiesTo<V>(out, out_stride));
}

// Only what a table has of its own that multiplies bf16 in pairs: its functions run products of Precision::kBf16 and no
// others, and what is absent here is another table's.
template <class V, class Tiling>
constexpr CpuKernels MakePairKernels(const char* name) {
  CpuKernels pairs = {};
  pairs.name = name;
  pairs.weight_order = Tiling::kOrder;
  pairs.bf16_in_pairs = true;
  pairs.run_product = RunPairs<V, Tiling>;
  pairs.run_accumulators = RunPairAccumulators<V, Tiling>;
  pairs.round_to_bf16 = RoundRowsToPairs<V>;
  return pairs;
}

template <class V, class Tiling>
constexpr CpuKernels MakeKernels(const char* name) {
  return {.name = name,
          .weight_order = Tiling::kOrder,
          .block_of_k = Tiling::kSpreads ? Tiling::kSpreadBlock : kShortBlock,
          .ways = [](int rows) { return WaysOf<Tiling>(rows, kPanelColumns); },
          .bf16_in_pairs = false,
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
          .round_to_bf16 = RoundRowsToBf16<V>,
          .copy_rows = CopyRows<V>};
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_INL_H_
