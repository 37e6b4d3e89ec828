// The stacked product for one Vec: register tiles, K blocks, prefetch. Included only by the one
// file of each instruction set, which says by its Vec what a tile may hold (Tiling).
//
//   for each chunk of rows              at most kChunkRows, equal: their inputs stay in L2
//     for each panel                    columns of 16 accumulators
//       for each segment, K block       its weights stay in L1 or L2 while ...
//         for each row block            ... up to 6 rows pass over them; next block's weights are
//         prefetched meanwhile
//       tail on the panel's accumulators
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/reductions_inl.h"
#include "cells/kernels/cpu/tail_inl.h"
#include "cells/kernels/cpu/tiling.h"

namespace cellbatch::kernels {

struct TileArgs {
  const float* const* x;  // one pointer a row
  int64_t k;              // first element of the row
  int depth;              // how many
  const float* w;         // [depth][columns][16]
  float* sums;            // row r, column n: sums + r * sums_stride + column[n]
  int64_t sums_stride;
  const int32_t* column;
  const float* prefetch;  // what is needed next: some cache lines from here a step of k
};

// f(0), f(1), ... f(N - 1), each with its number known when compiled: arrays indexed by it are registers from the
// start. (gcc 12 unrolls plain loops too late for that and leaves a copy of the sums on the stack; and without
// always_inline on the lambdas too, it may leave calls.)
template <int N, class F>
[[gnu::always_inline]] inline void Unrolled(F f) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (f(std::integral_constant<int, I>()), ...);
  }
  (std::make_integer_sequence<int, N>());
}

// R rows x C of N columns, from column `first`: every accumulator is one chain over k. Meanwhile kAhead cache lines a
// step are prefetched, from `ahead`.
template <class V, int R, int N, int C, int kAhead>
[[gnu::always_inline]] inline void TileColumns(const TileArgs& t, int first, const float* ahead) {
  V sum[R][C];
  const float* x[R];
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    x[r] = t.x[r] + t.k;
    const float* const sums = t.sums + r * t.sums_stride;
    Unrolled<C>([&](auto c) __attribute__((always_inline)) {
      sum[r][c] = V::Load(sums + t.column[first + c]);
    });
  });
  const float* w = t.w + first * kLanes;
  const int depth = t.depth;
#pragma GCC unroll 4
  for (int k = 0; k < depth; ++k) {
    V weights[C];
    Unrolled<C>([&](auto c)
                    __attribute__((always_inline)) { weights[c] = V::Load(w + c * kLanes); });
    Unrolled<R>([&](auto r) __attribute__((always_inline)) {
      const V value = V::Broadcast(x[r][k]);
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        sum[r][c] = V::Fma(value, weights[c], sum[r][c]);
      });
    });
    w += N * kLanes;
    Unrolled<kAhead>([&](auto i) __attribute__((always_inline)) {
      __builtin_prefetch(ahead + i * kLanes, 0, 2);
    });
    ahead += kAhead * kLanes;
  }
  // Where the sums go is read again, so that the loop above has all general registers for its pointers.
  const TileArgs* again = &t;
  __asm__ volatile("" : "+r"(again));
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    float* const sums = again->sums + r * again->sums_stride;
    Unrolled<C>([&](auto c) __attribute__((always_inline)) {
      sum[r][c].Store(sums + again->column[first + c]);
    });
  });
}

// Part i of n equal parts (to within one) of `total`: where it starts.
constexpr int PartStart(int total, int n, int i) {
  return static_cast<int>(int64_t{total} * i / n);
}

// All N columns, in passes of as many as registers allow, which share the prefetching.
template <class V, class Tiling, int R, int N, int kAhead>
void Tile(const TileArgs& t) {
  constexpr int kPasses = (N + Tiling::Columns(R) - 1) / Tiling::Columns(R);
  Unrolled<kPasses>([&](auto pass) __attribute__((always_inline)) {
    constexpr int kFirst = PartStart(N, kPasses, pass), kEnd = PartStart(N, kPasses, pass + 1);
    constexpr int kFrom = PartStart(kAhead, kPasses, pass);
    constexpr int kLines = PartStart(kAhead, kPasses, pass + 1) - kFrom;
    TileColumns<V, R, N, kEnd - kFirst, kLines>(t, kFirst,
                                                t.prefetch + int64_t{t.depth} * kFrom * kLanes);
  });
}

using TileFunction = void (*)(const TileArgs&);

// Functions by columns and cache lines prefetched a step of k (0..columns), for one number of rows.
template <class V, class Tiling, int R>
struct TilesOfRows {
  template <int N, int kAhead>
  static constexpr TileFunction kTile = Tile<V, Tiling, R, N, (kAhead < N ? kAhead : N)>;

  static TileFunction Find(int columns, int ahead) {
    static constexpr TileFunction kTiles[kMaxColumns][kMaxColumns + 1] = {
        {kTile<1, 0>, kTile<1, 1>, kTile<1, 2>, kTile<1, 3>, kTile<1, 4>, kTile<1, 5>},
        {kTile<2, 0>, kTile<2, 1>, kTile<2, 2>, kTile<2, 3>, kTile<2, 4>, kTile<2, 5>},
        {kTile<3, 0>, kTile<3, 1>, kTile<3, 2>, kTile<3, 3>, kTile<3, 4>, kTile<3, 5>},
        {kTile<4, 0>, kTile<4, 1>, kTile<4, 2>, kTile<4, 3>, kTile<4, 4>, kTile<4, 5>},
        {kTile<5, 0>, kTile<5, 1>, kTile<5, 2>, kTile<5, 3>, kTile<5, 4>, kTile<5, 5>}};
    return kTiles[columns - 1][ahead];
  }
};

template <class V, class Tiling, int R = Tiling::kRows>
TileFunction FindTile(int rows, int columns, int ahead) {
  if constexpr (R > 1) {
    if (rows < R) return FindTile<V, Tiling, R - 1>(rows, columns, ahead);
  }
  return TilesOfRows<V, Tiling, R>::Find(columns, ahead);
}

template <class V, class Tiling>
class ProductRun {
 public:
  ProductRun(const PackedProduct& product, const ProductArgs& args, ProductScratch* scratch)
      : p_(product), args_(args), scratch_(*scratch) {}

  // Points at the rows of chunk [first, first + rows).
  void StartChunk(int first, int rows) {
    first_ = first;
    rows_ = rows;
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      if (args_.inputs[s].base == nullptr) continue;
      const float** to = scratch_.input_rows(static_cast<int>(s));
      for (int r = 0; r < rows; ++r) to[r] = args_.inputs[s].Row(first + r);
    }
    for (int g = 0; args_.starts != nullptr && g < p_.groups(); ++g) {
      if (args_.starts[g].base == nullptr) continue;
      const float** to = scratch_.start_rows(g);
      for (int r = 0; r < rows; ++r) to[r] = args_.starts[g].Row(first + r);
    }
    if (args_.initial == nullptr) return;
    const float** to = scratch_.initial_rows();
    for (int r = 0; r < rows; ++r) to[r] = args_.initial->Row(first + r);
  }

  void Accumulate(int panel) {
    blocks_ = p_.BlocksOf(panel);
    stride_ = int64_t{blocks_} * p_.groups() * kLanes;
    Initialise(panel);
    if (args_.starts != nullptr) StartSums(panel);
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      const PackedProduct::Segment& segment = p_.segments()[s];
      if (segment.groups == 0) continue;
      if (args_.inputs[s].base == nullptr) {
        AddZeros(panel, static_cast<int>(s));
      } else {
        AddSegment(panel, segment, scratch_.input_rows(static_cast<int>(s)));
      }
    }
  }

  void Tail(int panel) { RunTails(panel, args_.columns); }

  // The tail's only column goes to the thread's own panel, and no further than its largest.
  void TailLargest(int panel) {
    const int first_unit = panel * p_.blocks_per_panel() * kLanes;
    const int rest = p_.units() - first_unit, units = rest < kPanelUnits ? rest : kPanelUnits;
    // Tails count rows from the call's first and units from the product's: to them it starts that much earlier.
    const int64_t skipped = int64_t{first_} * kPanelUnits + first_unit;
    RowColumn column;
    column.base = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(scratch_.panel()) -
                                           static_cast<uintptr_t>(skipped) * sizeof(float));
    column.stride = kPanelUnits;
    RunTails(panel, &column);
    for (int r = 0; r < rows_; ++r) {
      TakeLargest<V>(scratch_.panel() + int64_t{r} * kPanelUnits, first_unit, units,
                     args_.largest[first_ + r]);
    }
  }

  // The panel's accumulators as they are, to rows of accumulator_width() floats.
  void CopyOut(int panel, float* out, int64_t out_stride) {
    const int64_t at = PanelStart(panel);
    for (int r = 0; r < rows_; ++r) {
      Copy(Sums(0) + r * stride_, out + (first_ + r) * out_stride + at);
    }
  }

 private:
  void RunTails(int panel, const RowColumn* columns) {
    for (int b = 0; b < blocks_; ++b) {
      const int block = panel * p_.blocks_per_panel() + b, rest = p_.units() - block * kLanes;
      const TailSite site{
          &p_,   columns,          block, rest < kLanes ? rest : kLanes, Sums(b), stride_, first_,
          rows_, scratch_.values()};
      RunTail<V>(site, p_.tail_match());
    }
  }

  float* Sums(int block) { return scratch_.accumulators() + block * p_.groups() * kLanes; }

  // Where a panel's part of a row of accumulators starts.
  int64_t PanelStart(int panel) const {
    return int64_t{panel} * p_.blocks_per_panel() * p_.groups() * kLanes;
  }

  void Copy(const float* from, float* to) {
    for (int64_t i = 0; i < stride_; i += kLanes) V::Load(from + i).Store(to + i);
  }

  void Initialise(int panel) {
    const int64_t at = PanelStart(panel);
    const float** initial = scratch_.initial_rows();
    for (int r = 0; r < rows_; ++r) {
      if (args_.initial == nullptr) {
        Copy(p_.bias() + at, Sums(0) + r * stride_);
        continue;
      }
      // Rows of a big table are far away and in no order: fetch each one's part of the next panel meanwhile. (Harmless
      // beyond the last: a prefetch never faults.)
      const float* const from = initial[r] + at;
      for (int64_t i = 0; i < stride_; i += kLanes) __builtin_prefetch(from + stride_ + i, 0, 2);
      Copy(from, Sums(0) + r * stride_);
    }
  }

  // Groups whose sums were begun elsewhere go on from there.
  void StartSums(int panel) {
    for (int g = 0; g < p_.groups(); ++g) {
      if (args_.starts[g].base == nullptr) continue;
      const float** from = scratch_.start_rows(g);
      for (int b = 0; b < blocks_; ++b) {
        const int unit = (panel * p_.blocks_per_panel() + b) * kLanes, rest = p_.units() - unit;
        float* const to = Sums(b) + g * kLanes;
        for (int r = 0; r < rows_; ++r) {
          const float* const sum = from[r] + unit;
          (rest >= kLanes ? V::Load(sum) : V::LoadPart(sum, rest)).Store(to + r * stride_);
        }
      }
    }
  }

  void AddSegment(int panel, const PackedProduct::Segment& segment, const float** x) {
    int32_t column[kMaxColumns];
    int columns = 0;
    for (int b = 0; b < blocks_; ++b) {
      for (int g = 0; g < segment.groups; ++g) {
        column[columns++] = (b * p_.groups() + segment.group[g]) * kLanes;
      }
    }
    const float* const w = p_.Weights(panel, segment);
    const int row_blocks = Tiling::Blocks(rows_);
    // Weights that pass by once need no block to stay in a cache, and prefetching only if this machine likes it.
    const bool once = StreamsOnce<Tiling>(rows_, columns) && !scratch_.tuning().prefetch_alone;
    const int k_blocks = once ? 1 : (segment.depth + Tiling::kBlock - 1) / Tiling::kBlock;
    for (int kb = 0; kb < k_blocks; ++kb) {
      const int k = PartStart(segment.depth, k_blocks, kb);
      const int depth = PartStart(segment.depth, k_blocks, kb + 1) - k;
      TileArgs t{
          x,       k,      depth,  w + int64_t{k} * columns * kLanes, scratch_.accumulators(),
          stride_, column, nullptr};
      AddBlock(t, columns, row_blocks, once);
    }
  }

  // Groups that do not read the segment stay as they are, to the bit.
  void AddZeros(int panel, int s) {
    const PackedProduct::Segment& segment = p_.segments()[static_cast<size_t>(s)];
    const float* const terms = p_.ZeroTerms(s) + PanelStart(panel);
    for (int b = 0; b < blocks_; ++b) {
      for (int c = 0; c < segment.groups; ++c) {
        const int64_t at = (int64_t{b} * p_.groups() + segment.group[c]) * kLanes;
        const V zero = V::Load(terms + at);
        for (int r = 0; r < rows_; ++r) {
          float* const sum = scratch_.accumulators() + r * stride_ + at;
          (V::Load(sum) + zero).Store(sum);
        }
      }
    }
  }

  // One K block, every row block. What follows in memory is what is needed next: it is prefetched by all row blocks in
  // turns, as evenly as whole cache lines a step allow.
  void AddBlock(TileArgs t, int columns, int row_blocks, bool once) {
    const float* const* x = t.x;
    float* const sums = t.sums;
    const int64_t lines = int64_t{t.depth} * columns;
    t.prefetch = t.w + lines * kLanes;
    const int share = once ? 0 : (columns + row_blocks - 1) / row_blocks;
    int left = columns;
    for (int rb = 0; rb < row_blocks; ++rb) {
      const int r = PartStart(rows_, row_blocks, rb),
                rows = PartStart(rows_, row_blocks, rb + 1) - r;
      t.x = x + r;
      t.sums = sums + r * stride_;
      const int ahead = left < share ? left : share;
      FindTile<V, Tiling>(rows, columns, ahead)(t);
      t.prefetch += int64_t{t.depth} * ahead * kLanes;
      left -= ahead;
    }
  }

  const PackedProduct& p_;
  const ProductArgs& args_;
  ProductScratch& scratch_;
  int first_ = 0, rows_ = 0, blocks_ = 0;
  int64_t stride_ = 0;
};

// Calls finish(run, panel) with the accumulators of each panel of [first_panel, last_panel) and
// each chunk of rows.
template <class V, class Tiling, class Finish>
void ForEachPanel(const PackedProduct& product, const ProductArgs& args, int first_panel,
                  int last_panel, ProductScratch* scratch, Finish finish) {
  ProductRun<V, Tiling> run(product, args, scratch);
  const int chunks = (args.num_rows + kChunkRows - 1) / kChunkRows;
  for (int i = 0; i < chunks; ++i) {
    const int first = PartStart(args.num_rows, chunks, i);
    run.StartChunk(first, PartStart(args.num_rows, chunks, i + 1) - first);
    for (int panel = first_panel; panel < last_panel; ++panel) {
      run.Accumulate(panel);
      finish(run, panel);
    }
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
