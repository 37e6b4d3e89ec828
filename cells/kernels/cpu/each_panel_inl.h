// A product chunk after chunk and panel after panel, in the precision that it has. Included only by the one file of each
// instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_EACH_PANEL_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_EACH_PANEL_INL_H_

#include <type_traits>

#include "cells/kernels/cpu/product_inl.h"

namespace cellbatch::kernels {

// Calls finish(run, panel) with the accumulators of each panel, or pair of panels, of [first_panel, last_panel) and
// each chunk of rows, from the first panel to the last or the other way. `stores`: it calls run.Tail(panel).
template <class V, class Tiling, class S, class Finish>
void ForEachPanelOf(const PackedProduct& product, const ProductArgs& args, int first_panel,
                    int last_panel, ProductScratch* scratch, bool stores, Finish finish) {
  if (product.order() != Tiling::kOrder && product.weight_bytes() > 0) __builtin_trap();
  ProductRun<V, Tiling, S> run(product, args, scratch, stores);
  const int chunks = PassesOf(args.num_rows);
  for (int i = 0; i < chunks; ++i) {
    const int first = PartStart(args.num_rows, chunks, i);
    const bool backwards = args.from_last != (i % 2 == 1);
    run.StartChunk(first, PartStart(args.num_rows, chunks, i + 1) - first, backwards,
                   last_panel - first_panel);
    for (int begin = first_panel, end = last_panel; begin < end;) {
      const int panels = run.PanelsAtOnce(begin, end);
      const int panel = backwards ? end - panels : begin;
      run.Accumulate(panel, panels);
      finish(run, panel);
      (backwards ? end : begin) += backwards ? -panels : panels;
    }
  }
}

// The same of a product in any precision; where S says how some are multiplied, of one in those alone.
template <class V, class Tiling, class S, class Finish>
void ForEachPanel(const PackedProduct& product, const ProductArgs& args, int first_panel,
                  int last_panel, ProductScratch* scratch, bool stores, Finish finish) {
  const auto run = [&]<class Multiplied>(Multiplied) {
    ForEachPanelOf<V, Tiling, Multiplied>(product, args, first_panel, last_panel, scratch, stores,
                                          finish);
  };
  if constexpr (requires { typename S::Split; }) {
    if (product.precision() == Precision::kFp32Split) return run(typename S::Split());
    run(typename S::Bf16());
  } else if constexpr (!std::is_same_v<S, OneByOne>) {
    run(S());
  } else {
    switch (product.precision()) {
      case Precision::kFp32:
        return run(Fp32Stored());
      case Precision::kBf16:
        return run(Bf16Stored());
      case Precision::kW8:
        return run(W8Stored());
      case Precision::kFp32Split:  // only by tiles
      case Precision::kTf32:       // not by CPUs
        __builtin_trap();
    }
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_EACH_PANEL_INL_H_
