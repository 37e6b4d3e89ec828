// The stacked product for one Vec: register tiles, K blocks, prefetch. Included only by the one
// file of each instruction set, which says by its Vec what a tile may hold (Tiling).
//
//   for each chunk of rows              at most kChunkRows, equal: their inputs stay in L2
//     for each panel                    columns of 16 accumulators; of few rows, for each pair
//       for each segment, K block       its weights stay in L1 or L2 while ...
//         for each row block            ... up to 6 rows pass over them; next block's weights are
//         prefetched meanwhile
//       tail on the panel's accumulators
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_

#include <array>
#include <cstddef>
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
  const int32_t* column;  // of a pair: the first panel's, then the other's
  const float* prefetch;  // what is needed next: some cache lines from here a step of k
  int64_t apart = 0;      // of a pair: floats from the first panel's weights to the other's
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

// R rows x C of N columns, from column `first`, of P panels: every accumulator is one chain over k. Meanwhile kAhead
// cache lines a step are prefetched to L2, from `ahead`; or, if it is kNear, the lines of these columns to L1.
template <class V, int R, int N, int C, int P, int kAhead>
[[gnu::always_inline]] inline void TileColumns(const TileArgs& t, int first, const float* ahead) {
  V sum[R][P * C];
  const float* x[R];
  const auto column = [&t, first ](int i) __attribute__((always_inline)) {
    return t.column[i / C * N + first + i % C];
  };
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    x[r] = t.x[r] + t.k;
    const float* const sums = t.sums + r * t.sums_stride;
    Unrolled<P * C>([&](auto i)
                        __attribute__((always_inline)) { sum[r][i] = V::Load(sums + column(i)); });
  });
  const float* w = t.w + first * kLanes;
  const int64_t apart = t.apart;
  const int depth = t.depth;
#pragma GCC unroll 4
  for (int k = 0; k < depth; ++k) {
    Unrolled<P>([&](auto p) __attribute__((always_inline)) {
      V weights[C];
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        weights[c] = V::Load(w + p * apart + c * kLanes);
      });
      Unrolled<R>([&](auto r) __attribute__((always_inline)) {
        const V value = V::Broadcast(x[r][k]);
        Unrolled<C>([&](auto c) __attribute__((always_inline)) {
          sum[r][p * C + c] = V::Fma(value, weights[c], sum[r][p * C + c]);
        });
      });
    });
    if constexpr (kAhead == kNear) {
      Unrolled<C>([&](auto c) __attribute__((always_inline)) {
        __builtin_prefetch(w + kNearFloats + c * kLanes, 0, 3);
      });
    } else {
      Unrolled<kAhead>([&](auto i) __attribute__((always_inline)) {
        __builtin_prefetch(ahead + i * kLanes, 0, 2);
      });
      ahead += kAhead * kLanes;
    }
    w += N * kLanes;
  }
  // Where the sums go is read again, so that the loop above has all general registers for its pointers.
  const TileArgs* again = &t;
  __asm__ volatile("" : "+r"(again));
  Unrolled<R>([&](auto r) __attribute__((always_inline)) {
    float* const sums = again->sums + r * again->sums_stride;
    Unrolled<P * C>([&](auto i) __attribute__((always_inline)) {
      sum[r][i].Store(sums + again->column[i / C * N + first + i % C]);
    });
  });
}

// All N columns, in passes of as many as registers allow, which share the prefetching.
template <class V, class Tiling, int R, int N, int kAhead>
void Tile(const TileArgs& t) {
  constexpr int kPasses = (N + Tiling::Columns(R) - 1) / Tiling::Columns(R);
  Unrolled<kPasses>([&](auto pass) __attribute__((always_inline)) {
    constexpr int kFirst = PartStart(N, kPasses, pass), kEnd = PartStart(N, kPasses, pass + 1);
    if constexpr (kAhead == kNear) {
      TileColumns<V, R, N, kEnd - kFirst, 1, kNear>(t, kFirst, nullptr);
    } else {
      constexpr int kFrom = PartStart(kAhead, kPasses, pass);
      constexpr int kLines = PartStart(kAhead, kPasses, pass + 1) - kFrom;
      TileColumns<V, R, N, kEnd - kFirst, 1, kLines>(
          t, kFirst, t.prefetch + int64_t{t.depth} * kFrom * kLanes);
    }
  });
}

// All N columns of two panels.
template <class V, int R, int N>
void PairTile(const TileArgs& t) {
  TileColumns<V, R, N, N, 2, 0>(t, 0, nullptr);
}

using TileFunction = void (*)(const TileArgs&);

// Functions by columns and cache lines prefetched a step of k (0..columns, or kNear), for one number of rows; and those
// of pairs.
template <class V, class Tiling, int R>
struct TilesOfRows {
  template <int N, int kAhead>
  static constexpr TileFunction One() {
    if constexpr (kMetTiles<Tiling>.met[R][N][kAhead]) {
      return Tile<V, Tiling, R, N, kAhead>;
    } else {
      return nullptr;
    }
  }
  template <int N>
  static constexpr TileFunction Pair() {
    if constexpr (R <= Tiling::PairRows(N)) {
      return PairTile<V, R, N>;
    } else {
      return nullptr;
    }
  }

  static TileFunction Find(int columns, int ahead) {
    static constexpr auto kTiles = []<int... I>(std::integer_sequence<int, I...>) {
      return std::array<TileFunction, sizeof...(I)>{One<I / kWays + 1, I % kWays>()...};
    }
    (std::make_integer_sequence<int, kMaxColumns * kWays>());
    return kTiles[static_cast<size_t>((columns - 1) * kWays + ahead)];
  }
  static TileFunction FindPair(int columns) {
    static constexpr TileFunction kPairs[kMaxColumns] = {Pair<1>(), Pair<2>(), Pair<3>(), Pair<4>(),
                                                         Pair<5>()};
    return kPairs[columns - 1];
  }

 private:
  static constexpr int kWays = kNear + 1;
};

template <class V, class Tiling, int R = Tiling::kRows>
TileFunction FindTile(int rows, int columns, int ahead) {
  if constexpr (R > 1) {
    if (rows < R) return FindTile<V, Tiling, R - 1>(rows, columns, ahead);
  }
  return TilesOfRows<V, Tiling, R>::Find(columns, ahead);
}
template <class V, class Tiling, int R = Tiling::kRows>
TileFunction FindPairTile(int rows, int columns) {
  if constexpr (R > 1) {
    if (rows < R) return FindPairTile<V, Tiling, R - 1>(rows, columns);
  }
  return TilesOfRows<V, Tiling, R>::FindPair(columns);
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
    pairs_ = Way(MostColumns()) == StreamWay::kPaired;
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

  // How many panels from this one on are computed together: two have the same columns if both are full.
  int PanelsAtOnce(int panel, int last_panel) const {
    return pairs_ && panel + 1 < last_panel && p_.BlocksOf(panel) == p_.BlocksOf(panel + 1) ? 2 : 1;
  }

  void Accumulate(int panel, int panels) {
    blocks_ = p_.BlocksOf(panel) * panels;
    stride_ = int64_t{blocks_} * p_.groups() * kLanes;
    Initialise(panel);
    if (args_.starts != nullptr) StartSums(panel);
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      const PackedProduct::Segment& segment = p_.segments()[s];
      if (segment.groups == 0) continue;
      if (args_.inputs[s].base == nullptr) {
        AddZeros(panel, static_cast<int>(s));
      } else {
        const float** const x = scratch_.input_rows(static_cast<int>(s));
        panels == 2 ? AddToPair(panel, segment, x) : AddSegment(panel, segment, x);
      }
    }
  }

  void Tail(int panel) { RunTails(panel, args_.columns); }

  // The tail's only column goes to the thread's own panel, and no further than its largest.
  void TailLargest(int panel) {
    const int first_unit = panel * p_.blocks_per_panel() * kLanes;
    const int width = blocks_ * kLanes, rest = p_.units() - first_unit;
    // Tails count rows from the call's first and units from the product's: to them it starts that much earlier.
    const int64_t skipped = int64_t{first_} * width + first_unit;
    RowColumn column;
    column.base = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(scratch_.panel()) -
                                           static_cast<uintptr_t>(skipped) * sizeof(float));
    column.stride = width;
    RunTails(panel, &column);
    for (int r = 0; r < rows_; ++r) {
      TakeLargest<V>(scratch_.panel() + int64_t{r} * width, first_unit, rest < width ? rest : width,
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

  // What a full panel has in the segment that has most.
  int MostColumns() const {
    int most = 0;
    for (const PackedProduct::Segment& s : p_.segments()) most = s.groups > most ? s.groups : most;
    return most * p_.blocks_per_panel();
  }

  StreamWay Way(int columns) const {
    if (rows_ > kMostBlockRows) return StreamWay::kUndisturbed;
    const Tuning& tuning = scratch_.tuning();
    return WayOf<Tiling>(tuning.way[static_cast<size_t>(rows_)], rows_, columns,
                         tuning.IsFar(p_.weight_bytes()));
  }

  // Where the segment's columns lie in a row of accumulators, of both panels of a pair; returns how many.
  int FindColumns(const PackedProduct::Segment& segment, int32_t* column) const {
    int columns = 0;
    for (int b = 0; b < blocks_; ++b) {
      for (int g = 0; g < segment.groups; ++g) {
        column[columns++] = (b * p_.groups() + segment.group[g]) * kLanes;
      }
    }
    return columns;
  }

  // Two panels, which stream in side by side.
  void AddToPair(int panel, const PackedProduct::Segment& segment, const float** x) {
    int32_t column[2 * kMaxColumns];
    const int columns = FindColumns(segment, column) / 2;
    const float* const w = p_.Weights(panel, segment);
    FindPairTile<V, Tiling>(
        rows_, columns)({x, 0, segment.depth, w, scratch_.accumulators(), stride_, column, nullptr,
                         p_.Weights(panel + 1, segment) - w});
  }

  void AddSegment(int panel, const PackedProduct::Segment& segment, const float** x) {
    int32_t column[kMaxColumns];
    const int columns = FindColumns(segment, column);
    const float* const w = p_.Weights(panel, segment);
    const int row_blocks = Tiling::Blocks(rows_);
    // Weights that pass by once need no block to stay in a cache.
    const bool once = StreamsOnce<Tiling>(rows_, columns);
    const int at_once = row_blocks == 1 ? kLoneBlock : Tiling::kBlock;
    const int k_blocks = once ? 1 : (segment.depth + at_once - 1) / at_once;
    for (int kb = 0; kb < k_blocks; ++kb) {
      const int k = PartStart(segment.depth, k_blocks, kb);
      const int depth = PartStart(segment.depth, k_blocks, kb + 1) - k;
      TileArgs t{
          x,       k,      depth,  w + int64_t{k} * columns * kLanes, scratch_.accumulators(),
          stride_, column, nullptr};
      row_blocks == 1 ? AddAlone(t, columns, once) : AddBlock(t, columns, row_blocks);
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

  // One row block: whoever passes over a block of K in parts has time to prefetch, others do as they are tuned.
  void AddAlone(const TileArgs& t, int columns, bool once) {
    const bool near = !once || Way(columns) == StreamWay::kPrefetched;
    FindTile<V, Tiling>(rows_, columns, near ? kNear : 0)(t);
  }

  // One K block, every row block. What follows in memory is what is needed next: it is prefetched by all row blocks in
  // turns, or near by the first.
  void AddBlock(TileArgs t, int columns, int row_blocks) {
    const float* const* x = t.x;
    float* const sums = t.sums;
    t.prefetch = t.w + int64_t{t.depth} * columns * kLanes;
    for (int rb = 0; rb < row_blocks; ++rb) {
      const int r = PartStart(rows_, row_blocks, rb),
                rows = PartStart(rows_, row_blocks, rb + 1) - r;
      t.x = x + r;
      t.sums = sums + r * stride_;
      const int ahead = LinesAhead<Tiling>(columns, row_blocks, rb);
      FindTile<V, Tiling>(rows, columns, ahead)(t);
      t.prefetch += int64_t{t.depth} * ahead * kLanes;  // of no meaning where they are near
    }
  }

  const PackedProduct& p_;
  const ProductArgs& args_;
  ProductScratch& scratch_;
  bool pairs_ = false;
  int first_ = 0, rows_ = 0, blocks_ = 0;
  int64_t stride_ = 0;
};

// Calls finish(run, panel) with the accumulators of each panel, or pair of panels, of [first_panel, last_panel) and
// each chunk of rows.
template <class V, class Tiling, class Finish>
void ForEachPanel(const PackedProduct& product, const ProductArgs& args, int first_panel,
                  int last_panel, ProductScratch* scratch, Finish finish) {
  ProductRun<V, Tiling> run(product, args, scratch);
  const int chunks = (args.num_rows + kChunkRows - 1) / kChunkRows;
  for (int i = 0; i < chunks; ++i) {
    const int first = PartStart(args.num_rows, chunks, i);
    run.StartChunk(first, PartStart(args.num_rows, chunks, i + 1) - first);
    for (int panel = first_panel, panels = 0; panel < last_panel; panel += panels) {
      panels = run.PanelsAtOnce(panel, last_panel);
      run.Accumulate(panel, panels);
      finish(run, panel);
    }
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
