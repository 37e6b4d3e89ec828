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

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/tail_inl.h"

namespace cellbatch::kernels {

struct TileArgs {
  const float* const* x;  // one pointer a row
  int64_t k;              // first element of the row
  int depth;              // how many
  const float* w;         // [depth][columns][16]
  float* sums;            // row r, column n: sums + r * sums_stride + column[n]
  int64_t sums_stride;
  const int32_t* column;
  const float* prefetch;  // kAhead cache lines from here a step of k
};

// R rows x C of N columns, from column `first`: every accumulator is one chain over k.
template <class V, int R, int N, int C, int kAhead>
[[gnu::always_inline]] inline void TileColumns(const TileArgs& t, int first) {
  V sum[R][C];
  const float* x[R];
  for (int r = 0; r < R; ++r) {
    x[r] = t.x[r] + t.k;
    for (int c = 0; c < C; ++c) {
      sum[r][c] = V::Load(t.sums + r * t.sums_stride + t.column[first + c]);
    }
  }
  const float* w = t.w + first * kLanes;
  const float* ahead = t.prefetch;
#pragma GCC unroll 4
  for (int k = 0; k < t.depth; ++k) {
    V weights[C];
    for (int c = 0; c < C; ++c) weights[c] = V::Load(w + c * kLanes);
    for (int r = 0; r < R; ++r) {
      const V value = V::Broadcast(x[r][k]);
      for (int c = 0; c < C; ++c) sum[r][c] = V::Fma(value, weights[c], sum[r][c]);
    }
    w += N * kLanes;
    for (int i = 0; i < kAhead; ++i) __builtin_prefetch(ahead + i * kLanes, 0, 2);
    ahead += kAhead * kLanes;
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sum[r][c].Store(t.sums + r * t.sums_stride + t.column[first + c]);
  }
}

// All N columns, as many at once as registers allow. The first pass prefetches.
template <class V, class Tiling, int R, int N, int kAhead>
void Tile(const TileArgs& t) {
  constexpr int kAtOnce = Tiling::Columns(R) < N ? Tiling::Columns(R) : N;
  TileColumns<V, R, N, kAtOnce, kAhead>(t, 0);
  for (int first = kAtOnce; first + kAtOnce <= N; first += kAtOnce) {
    TileColumns<V, R, N, kAtOnce, 0>(t, first);
  }
  constexpr int kRest = N % kAtOnce;
  if constexpr (kRest != 0) TileColumns<V, R, N, kRest, 0>(t, N - kRest);
}

using TileFunction = void (*)(const TileArgs&);

// Functions by columns and prefetch, for one number of rows.
template <class V, class Tiling, int R>
struct TilesOfRows {
  static TileFunction Find(int columns, int ahead) {
    static constexpr TileFunction kTiles[kMaxColumns][3] = {
        {Tile<V, Tiling, R, 1, 0>, Tile<V, Tiling, R, 1, 1>, Tile<V, Tiling, R, 1, 1>},
        {Tile<V, Tiling, R, 2, 0>, Tile<V, Tiling, R, 2, 1>, Tile<V, Tiling, R, 2, 2>},
        {Tile<V, Tiling, R, 3, 0>, Tile<V, Tiling, R, 3, 1>, Tile<V, Tiling, R, 3, 3>},
        {Tile<V, Tiling, R, 4, 0>, Tile<V, Tiling, R, 4, 1>, Tile<V, Tiling, R, 4, 4>}};
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

// Part i of n equal parts (to within one) of `total`: where it starts.
inline int PartStart(int total, int n, int i) { return static_cast<int>(int64_t{total} * i / n); }

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
      const float** to = scratch_.input_rows(static_cast<int>(s));
      for (int r = 0; r < rows; ++r) to[r] = args_.inputs[s].Row(first + r);
    }
    if (args_.initial == nullptr) return;
    const float** to = scratch_.initial_rows();
    for (int r = 0; r < rows; ++r) to[r] = args_.initial->Row(first + r);
  }

  void Accumulate(int panel) {
    blocks_ = p_.BlocksOf(panel);
    stride_ = int64_t{blocks_} * p_.groups() * kLanes;
    Initialise(panel);
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      const PackedProduct::Segment& segment = p_.segments()[s];
      if (segment.groups > 0) AddSegment(panel, segment, scratch_.input_rows(static_cast<int>(s)));
    }
  }

  void Tail(int panel) {
    for (int b = 0; b < blocks_; ++b) {
      const int block = panel * p_.blocks_per_panel() + b, rest = p_.units() - block * kLanes;
      const TailSite site{
          &p_,   args_.columns,    block, rest < kLanes ? rest : kLanes, Sums(b), stride_, first_,
          rows_, scratch_.values()};
      RunTail<V>(site, p_.tail_match());
    }
  }

  // The panel's accumulators as they are, to rows of accumulator_width() floats.
  void CopyOut(int panel, float* out, int64_t out_stride) {
    const int64_t at = int64_t{panel} * p_.blocks_per_panel() * p_.groups() * kLanes;
    for (int r = 0; r < rows_; ++r) {
      Copy(Sums(0) + r * stride_, out + (first_ + r) * out_stride + at);
    }
  }

 private:
  float* Sums(int block) { return scratch_.accumulators() + block * p_.groups() * kLanes; }

  void Copy(const float* from, float* to) {
    for (int64_t i = 0; i < stride_; i += kLanes) V::Load(from + i).Store(to + i);
  }

  void Initialise(int panel) {
    const int64_t at = int64_t{panel} * p_.blocks_per_panel() * p_.groups() * kLanes;
    const float** initial = scratch_.initial_rows();
    for (int r = 0; r < rows_; ++r) {
      Copy((args_.initial != nullptr ? initial[r] : p_.bias()) + at, Sums(0) + r * stride_);
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
    const int row_blocks = (rows_ + Tiling::kRows - 1) / Tiling::kRows;
    const int k_blocks =
        row_blocks == 1 ? 1 : (segment.depth + Tiling::kBlock - 1) / Tiling::kBlock;
    for (int kb = 0; kb < k_blocks; ++kb) {
      const int k = PartStart(segment.depth, k_blocks, kb);
      const int depth = PartStart(segment.depth, k_blocks, kb + 1) - k;
      TileArgs t{
          x,       k,      depth,  w + int64_t{k} * columns * kLanes, scratch_.accumulators(),
          stride_, column, nullptr};
      AddBlock(t, columns, row_blocks);
    }
  }

  // One K block, every row block. What follows in memory is what is needed next, so it is
  // prefetched: by a single row block at a fixed distance, by many in turns.
  void AddBlock(TileArgs t, int columns, int row_blocks) {
    const float* const* x = t.x;
    float* const sums = t.sums;
    const int64_t lines = int64_t{t.depth} * columns;
    t.prefetch = t.w + (row_blocks == 1 ? int64_t{Tiling::kDistance} : lines) * kLanes;
    const int ahead_lines = row_blocks < columns ? columns : 1;
    const int turns = row_blocks < columns ? 1 : columns;
    for (int rb = 0; rb < row_blocks; ++rb) {
      const int r = PartStart(rows_, row_blocks, rb),
                rows = PartStart(rows_, row_blocks, rb + 1) - r;
      t.x = x + r;
      t.sums = sums + r * stride_;
      const int ahead = rb >= turns ? 0 : (ahead_lines == 1 ? 1 : 2);
      FindTile<V, Tiling>(rows, columns, ahead)(t);
      if (ahead != 0) t.prefetch += int64_t{t.depth} * ahead_lines * kLanes;
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
