// The stacked product for one Vec: register tiles, K blocks, prefetch. Included only by the one
// file of each instruction set, which says by its Vec what a tile may hold (Tiling).
//
//   for each chunk of rows              at most kChunkRows, equal: their inputs stay in L2
//     for each panel                    columns of 16 accumulators; of few rows, for each pair
//       for each segment, K block       its weights stay in L1 or L2 while ...
//         for each row block            ... up to 6 rows pass over them; next block's weights are
//         prefetched meanwhile          (tiling.h: in which of several ways)
//       (columns apart: a block is of one column or a few, blocks of all columns one after the other)
//       tail on the panel's accumulators; where it would only store them, they are summed up where it would
//
// Weights that are stored in less than fp32 (stored_inl.h) are expanded in registers where they pass by once; else a block
// of them is expanded to scratch, once for all row blocks, and the tiles for floats pass over that.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cells/kernels/cpu/expand_inl.h"
#include "cells/kernels/cpu/packed_rows_inl.h"
#include "cells/kernels/cpu/panel_sums_inl.h"
#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/reductions_inl.h"
#include "cells/kernels/cpu/stored_inl.h"
#include "cells/kernels/cpu/tail_inl.h"
#include "cells/kernels/cpu/tile_inl.h"
#include "cells/kernels/cpu/tiling.h"

namespace cellbatch::kernels {

template <class V, class Tiling, class S>
class ProductRun {
 public:
  // `stores`: Tail() is called of every panel, and nothing else.
  ProductRun(const PackedProduct& product, const ProductArgs& args, ProductScratch* scratch,
             bool stores)
      : p_(product),
        args_(args),
        scratch_(*scratch),
        sums_(product, args, scratch, {stores && !S::kSummedApart, !S::kSummedApart}) {}

  // Points at the rows of chunk [first, first + rows), which pass over so many panels in that direction.
  void StartChunk(int first, int rows, bool backwards, int panels) {
    first_ = first;
    rows_ = rows;
    backwards_ = backwards;
    cut_columns_ = 0;
    pairs_ = !kTiled && Way(MostColumns()) == StreamWay::kPaired;
    if constexpr (kApart<Tiling>) {
      row_blocks_ = Tiling::Blocks(rows);
      for (int rb = 0; rb <= row_blocks_; ++rb) row_start_[rb] = PartStart(rows, row_blocks_, rb);
    }
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      if (args_.inputs[s].base == nullptr) continue;
      const float** to = scratch_.input_rows(static_cast<int>(s));
      for (int r = 0; r < rows; ++r) to[r] = args_.inputs[s].Row(first + r);
    }
    if constexpr (kApart<Tiling>) PackSegments(panels);
    sums_.StartChunk(first, rows);
    for (int g = 0; args_.starts != nullptr && g < p_.groups(); ++g) {
      if (args_.starts[g].base == nullptr) continue;
      const float** to = scratch_.start_rows(g);
      for (int r = 0; r < rows; ++r) to[r] = args_.starts[g].Row(first + r);
    }
    if (Compiled() != nullptr) FindColumnRows(args_.columns);
    if (args_.initial == nullptr) return;
    const float** to = scratch_.initial_rows();
    for (int r = 0; r < rows; ++r) to[r] = args_.initial->Row(first + r);
  }

  // How many of panels [begin, end) are computed together, the first of them or the last: two have the same columns if both
  // are full.
  int PanelsAtOnce(int begin, int end) const {
    if (!pairs_ || end - begin < 2) return 1;
    const int panel = backwards_ ? end - 2 : begin;
    return p_.BlocksOf(panel) == p_.BlocksOf(panel + 1) ? 2 : 1;
  }

  void Accumulate(int panel, int panels) {
    blocks_ = p_.BlocksOf(panel) * panels;
    sums_.Place(panel, blocks_);
    sums_.Initialise();
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      const PackedProduct::Segment& segment = p_.segments()[s];
      if (segment.groups == 0) continue;
      if (args_.inputs[s].base == nullptr) {
        sums_.AddZeros(static_cast<int>(s), !kTiled);
        continue;
      }
      if constexpr (S::kSummedApart) ClearTerms();
      const float** const x = scratch_.input_rows(static_cast<int>(s));
      if constexpr (kTiled) {
        AddTiles(panel, segment, x, args_.inputs[s], sums_.StartOf(s));
      } else if constexpr (kApart<Tiling>) {
        AddColumns(panel, segment, x, packed_[s], sums_.StartOf(s));
      } else if (panels == 2) {
        AddToPair(panel, segment, x, sums_.StartOf(s));
      } else {
        AddSegment(panel, segment, x, sums_.StartOf(s));
      }
      if constexpr (S::kSummedApart) AddTerms(static_cast<int>(s));
    }
  }

  void Tail(int panel) {
    if (!sums_.StandInPlace()) RunTails(panel, args_.columns);
  }

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
    if (Compiled() != nullptr) FindColumnRows(&column);
    RunTails(panel, &column);
    for (int r = 0; r < rows_; ++r) {
      TakeLargest<V>(scratch_.panel() + int64_t{r} * width, first_unit, rest < width ? rest : width,
                     args_.largest[first_ + r]);
    }
  }

  // The panel's accumulators as they are, to rows of accumulator_width() floats.
  void CopyOut(float* out, int64_t out_stride) { sums_.CopyOut(out, out_stride); }

 private:
  using Number = typename S::Number;
  static constexpr bool kTiled = !std::is_same_v<typename S::Tiled, NotTiled>;
  static constexpr int kStepBytes = kColumnStep<S> * static_cast<int>(sizeof(Number));

  void RunTails(int panel, const RowColumn* columns) {
    if (p_.IsOfNumbers()) return RunTailOfNumbers<V>(p_, columns, first_, rows_, scratch_.values());
    const int first = panel * p_.blocks_per_panel(), whole = p_.units() / kLanes - first;
    int b = 0;
    if (Compiled() != nullptr && whole > 0) {
      const int compiled = whole < blocks_ ? whole : blocks_;
      const int at_once = Compiled()->by_blocks() ? compiled : 1;
      for (; b < compiled; b += at_once) RunCompiledTail(first + b, b, at_once);
    }
    for (; b < blocks_; ++b) {
      const int block = first + b, rest = p_.units() - block * kLanes;
      const int lanes = rest < kLanes ? rest : kLanes;
      RunTail<V>({&p_, columns, block, lanes, sums_.Row(0) + sums_.At(b, 0), sums_.stride(), first_,
                  rows_, scratch_.values()},
                 p_.tail_match());
    }
  }

  // The tail as machine code, where there is one and these registers run it.
  const CompiledTail* Compiled() const { return p_.compiled_tail(V::kTailIsa); }

  // Where every column's rows start.
  void FindColumnRows(const RowColumn* columns) {
    if (columns == nullptr) return;
    for (int c = 0; c < p_.tail().num_columns; ++c) {
      const float** to = scratch_.column_rows() + c * kChunkRows;
      for (int r = 0; r < rows_; ++r) to[r] = columns[c].Row(first_ + r);
    }
  }

  // Of blocks from `block` on, the panel's b-th.
  void RunCompiledTail(int block, int b, int blocks) {
    constexpr int64_t kBytes = sizeof(float);
    const int64_t unit = int64_t{block} * kLanes;
    Compiled()->Run({sums_.Row(0) + sums_.At(b, 0), sums_.stride() * kBytes, p_.Parameter(0) + unit,
                     scratch_.column_rows(), unit * kBytes, rows_, blocks});
  }

  // What a full panel has in the segment that has most.
  int MostColumns() const {
    int most = 0;
    for (const PackedProduct::Segment& s : p_.segments()) most = s.groups > most ? s.groups : most;
    return most * p_.blocks_per_panel();
  }

  // What is stored in less than fp32 and passes by once is never expanded first, as the spread way would.
  StreamWay Way(int columns) const {
    const Tuning& tuning = scratch_.tuning();
    const bool far = tuning.IsFar(p_.weight_bytes());
    const StreamWay asked = tuning.WayOf(rows_, far);
    constexpr bool kNeverExpands = std::is_same_v<Number, float> || kApart<Tiling>;
    const bool by_itself = kNeverExpands || !StreamsOnce<Tiling>(rows_, columns);
    // Short blocks were measured of floats alone.
    const bool refused = asked == StreamWay::kSpread  ? !by_itself
                         : asked == StreamWay::kShort ? !std::is_same_v<S, Fp32Stored>
                                                      : false;
    return WayOf<Tiling>(refused ? StreamWay::kUsual : asked, rows_, columns, far);
  }

  // What the first row's tiles add to: its sums, or what those of all rows start from.
  void SetFrom(TileArgs& t, const float* start, const int32_t* start_column) {
    t.from = start != nullptr ? start : Into();
    t.from_stride = start != nullptr ? 0 : sums_.stride();
    t.from_column = start != nullptr ? start_column : t.column;
  }

  void AddTiles(int panel, const PackedProduct::Segment& segment, const float** x,
                const RowSource& in, const float* start) {
    int32_t column[kMaxColumns], start_column[kMaxColumns];
    const int columns = sums_.FindColumns(segment, column);
    if (start != nullptr) sums_.FindStartColumns(segment, start_column);
    const int64_t x_stride = in.rows == nullptr && in.tokens == nullptr ? in.stride : 0;
    tiled_.Add({x, x_stride, rows_, Steps(segment.depth), Weights(panel, segment),
                After(panel, segment, nullptr), columns, Into(), sums_.stride(), column, start,
                start_column, scratch_.tuning().IsNear(p_.weight_bytes())});
  }

  // Two panels, which stream in side by side.
  void AddToPair(int panel, const PackedProduct::Segment& segment, const float** x,
                 const float* start) {
    int32_t column[2 * kMaxColumns], start_column[2 * kMaxColumns];
    const int columns = sums_.FindColumns(segment, column) / 2;
    if (start != nullptr) sums_.FindStartColumns(segment, start_column);
    const Number* const w = Weights(panel, segment);
    TileArgs t{x,       0,      Steps(segment.depth),           w, Into(), sums_.stride(), column,
               nullptr, kLanes, Weights(panel + 1, segment) - w};
    SetFrom(t, start, start_column);
    FindPairTile<V, Tiling, S>(rows_, columns)(t);
  }

  static int Steps(int depth) {
    constexpr int kOfStep = S::kDepth * S::kPacked;
    return (depth + kOfStep - 1) / kOfStep;
  }

  const Number* Weights(int panel, const PackedProduct::Segment& segment) const {
    return reinterpret_cast<const Number*>(p_.template Weights<typename S::Stored>(panel, segment));
  }

  // What is read after the segment's weights, which end there: those of the next segment lie behind them, and of the next panel,
  // too, but if that is the one before. (After the last panel of a pass comes that one again, of the next rows.)
  const Number* After(int panel, const PackedProduct::Segment& segment, const Number* end) const {
    if (!backwards_ || &segment != &p_.segments().back()) return end;
    return Weights(panel > 0 ? panel - 1 : 0, p_.segments().front());
  }

  // How far apart the columns are of the segment that is read next.
  int64_t ApartAfter(const PackedProduct::Segment& segment) const {
    const bool last = &segment == &p_.segments().back();
    const PackedProduct::Segment& next = last ? p_.segments().front() : (&segment)[1];
    return int64_t{Steps(next.depth)} * kColumnStep<S>;
  }

  // Tiles over blocks that were expanded, if that is what is done with weights stored in less.
  using InBlocks = std::conditional_t<std::is_same_v<Number, float>, S, Fp32Stored>;

  // Where tiles add up.
  float* Into() { return S::kSummedApart ? scratch_.terms() : sums_.Row(0); }

  void ClearTerms() {
    const V zero = V::Broadcast(0.0f);
    for (int64_t i = 0; i < rows_ * sums_.stride(); i += kLanes) zero.Store(scratch_.terms() + i);
  }

  void AddSegment(int panel, const PackedProduct::Segment& segment, const float** x,
                  const float* start) {
    int32_t column[kMaxColumns], start_column[kMaxColumns];
    const int columns = sums_.FindColumns(segment, column);
    if (start != nullptr) sums_.FindStartColumns(segment, start_column);
    const Number* const w = Weights(panel, segment);
    const StreamWay way = Way(columns);
    // Weights that pass by once need no block to stay in a cache.
    const bool once = way != StreamWay::kSpread && StreamsOnce<Tiling>(rows_, columns);
    const bool stored = MeetsStored<Tiling, S>(rows_);
    const int at_once = BlockOfK<Tiling>(way, rows_) / (stored ? 1 : S::kDepth);
    const int steps = Steps(segment.depth);
    const int k_blocks = once ? 1 : (steps + at_once - 1) / at_once;
    if (!once) CutRows(way, columns);
    Parts parts(steps, k_blocks);
    for (int kb = 0, step = 0, depth = 0; kb < k_blocks; ++kb, step += depth) {
      depth = parts.Next();
      const Number* const block = w + int64_t{step} * columns * kColumnStep<S>;
      TileArgs t{x, step * S::kDepth, depth, block, Into(), sums_.stride(), column, nullptr};
      SetFrom(t, kb == 0 ? start : nullptr, start_column);
      if (once) {
        FindTile<V, Tiling, S>(rows_, columns, way == StreamWay::kPrefetched ? kNear : 0)(t);
        continue;
      }
      const Number* const end = block + int64_t{depth} * columns * kColumnStep<S>;
      const Number* const next = kb + 1 < k_blocks ? end : After(panel, segment, end);
      t.prefetch = stored ? reinterpret_cast<const float*>(next)
                          : AsFloats(t, block, next, segment.depth, columns);
      t.line_step = LineStep(way);
      AddBlock(t);
    }
  }

  // Rows that many panels read, of as many segments as there is room for: once for all calls of a run.
  void PackSegments(int panels) {
    const bool whole = rows_ == args_.num_rows;
    const uint64_t run = whole ? args_.run : 0;
    const bool pack =
        row_blocks_ > 1 && (run != 0 ? args_.panels_of_run : panels) >= kLeastPanelsToPackFor;
    const bool there = run != 0 && scratch_.packed_run() == run;
    float* to = scratch_.packed_rows();
    int64_t left = ProductScratch::kPackedFloats;
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      packed_[s] = nullptr;
      const PackedProduct::Segment& segment = p_.segments()[s];
      const int64_t floats = int64_t{rows_} * segment.depth;
      if (!pack || floats > left || args_.inputs[s].base == nullptr || segment.groups == 0)
        continue;
      packed_[s] = to;
      if (!there) PackSegment(scratch_.input_rows(static_cast<int>(s)), segment.depth, to);
      to += floats;
      left -= floats;
    }
    if (pack) scratch_.packed_run() = run;
  }

  void PackSegment(const float* const* x, int depth, float* to) {
    for (int rb = 0; rb < row_blocks_; ++rb) {
      const int r = row_start_[rb], rows = row_start_[rb + 1] - r;
      PackRows(x + r, rows, depth, to);
      to += int64_t{rows} * depth;
    }
  }

  // Columns that lie apart, block by block of K: as many of them at once as registers hold, then the next ones. `packed`:
  // null, or the rows of `x`, packed.
  void AddColumns(int panel, const PackedProduct::Segment& segment, const float** x,
                  const float* packed, const float* start) {
    int32_t column[kMaxColumns], start_column[kMaxColumns];
    const int columns = sums_.FindColumns(segment, column);
    if (start != nullptr) sums_.FindStartColumns(segment, start_column);
    const Number* const w = Weights(panel, segment);
    const StreamWay way = Way(columns);
    const bool undisturbed = way == StreamWay::kUndisturbed;
    const int steps = Steps(segment.depth);
    const int64_t apart = int64_t{steps} * kColumnStep<S>;
    const int most = undisturbed ? steps : BlockOfK<Tiling>(way, rows_) / S::kDepth;
    const int k_blocks = (steps + most - 1) / most;
    const int at_once = row_blocks_ == 1 ? Tiling::Columns(rows_) : 1;
    const int passes = (columns + at_once - 1) / at_once, width = (columns + passes - 1) / passes;
    // A block of one column and 64 steps is done before memory answers: what is prefetched is needed one block later.
    const int ahead = way == StreamWay::kPrefetched && width == 1 ? 2 : 1;
    for (int kb = 0; kb < k_blocks; ++kb) {
      const int step = PartStart(steps, k_blocks, kb), end = PartStart(steps, k_blocks, kb + 1);
      TileArgs t{x, step * S::kDepth, end - step, nullptr, Into(), sums_.stride(), column, nullptr};
      t.apart = apart;
      const int lines = undisturbed ? 0 : (t.depth * kStepBytes + kLineBytes - 1) / kLineBytes;
      const int share = (lines + row_blocks_ - 1) / row_blocks_;
      for (int c = 0; c < columns; c += width) {
        const int end_c = c + width < columns ? c + width : columns;
        // What is read soon: the same steps of other columns, the next ones of the first columns, or another segment.
        int next_kb = kb, next_c = c + ahead * width;
        for (; next_c >= columns; next_c -= passes * width) ++next_kb;
        const Number* const next =
            next_kb < k_blocks
                ? w + next_c * apart + int64_t{PartStart(steps, k_blocks, next_kb)} * kColumnStep<S>
                : After(panel, segment, w + columns * apart) + next_c * ApartAfter(segment);
        t.depth = end - step;
        t.w = w + c * apart + int64_t{step} * kColumnStep<S>;
        t.column = column + c;
        SetFrom(t, kb == 0 ? start : nullptr, start_column + c);
        t.prefetch = reinterpret_cast<const float*>(next);
        AddColumnBlock(t, x, packed, end_c - c, segment.depth, lines, share);
      }
    }
  }

  // A block of so many columns, every row block: each prefetches its share of the lines of each column. Only what several
  // pass over is expanded first. (`t` is written in pieces: a copy of it would wait for them.)
  void AddColumnBlock(TileArgs& t, const float* const* x, const float* packed, int columns,
                      int depth, int lines, int share) {
    const bool expanded = !std::is_same_v<Number, float> && row_blocks_ > 1;
    if (expanded) AsFloats(t, static_cast<const Number*>(t.w), nullptr, depth, 1);
    const Read read = packed != nullptr ? Read::kPacked
                      : expanded        ? Read::kExpanded
                                        : Read::kStored;
    float* const sums = Into();
    const float* const from = t.from;
    for (int rb = 0; rb < row_blocks_; ++rb, lines -= share) {
      const int r = row_start_[rb], rows = row_start_[rb + 1] - r;
      t.x = packed != nullptr ? &packed : x + r;
      t.sums = sums + r * sums_.stride();
      t.from = from + r * t.from_stride;
      t.ahead = lines < share ? (lines < 0 ? 0 : lines) : share;
      ApartTileOf(rows, columns, read)(t);
      t.prefetch += share * kLanes;
      if (packed != nullptr) packed += int64_t{rows} * depth;
    }
  }

  // What a tile of columns apart reads: weights as they are stored and rows where they lie, weights that were expanded, or rows
  // that were packed and floats.
  enum class Read : uint8_t { kStored, kExpanded, kPacked };
  TileFunction ApartTileOf(int rows, int columns, Read read) {
    TileFunction& tile = tiles_[static_cast<int>(read)][rows][columns];
    if (tile == nullptr) {
      tile = read == Read::kPacked     ? FindPackedTile<V, Tiling, InBlocks>(rows)
             : read == Read::kExpanded ? FindApartTile<V, Tiling, InBlocks>(rows, columns)
                                       : FindApartTile<V, Tiling, S>(rows, columns);
    }
    return tile;
  }

  // The weights of `t` as floats; returns what row blocks prefetch: what is needed next. What is expanded is near as it is.
  const float* AsFloats(TileArgs& t, const Number* block, const Number* next, int depth,
                        int columns) {
    if constexpr (std::is_same_v<Number, float>) {
      return next;
    } else {
      ExpandBlock<V, S, !kApart<Tiling>>(block, t.depth, columns, scratch_.expanded());
      const auto left = static_cast<int>(depth - t.k);
      t.depth = t.depth * S::kDepth < left ? t.depth * S::kDepth : left;
      t.w = scratch_.expanded();
      return scratch_.expanded();
    }
  }

  // What was summed apart, scaled. Groups that do not read the segment stay as they are.
  void AddTerms(int s) {
    const PackedProduct::Segment& segment = p_.segments()[static_cast<size_t>(s)];
    const float* const scales = p_.Scales(s) + sums_.PanelStart();
    for (int b = 0; b < blocks_; ++b) {
      for (int c = 0; c < segment.groups; ++c) {
        const int64_t at = (int64_t{b} * p_.groups() + segment.group[c]) * kLanes;
        const V scale = V::Load(scales + at);
        for (int64_t i = at; i < rows_ * sums_.stride(); i += sums_.stride()) {
          float* const sum = scratch_.accumulators() + i;
          V::Fma(V::Load(scratch_.terms() + i), scale, V::Load(sum)).Store(sum);
        }
      }
    }
  }

  // How the chunk's rows are cut for tiles of so many columns, and which tiles those are: the same for every block of K, and
  // for all panels and segments that have so many columns.
  void CutRows(StreamWay way, int columns) {
    if (way == cut_way_ && columns == cut_columns_) return;
    cut_way_ = way;
    cut_columns_ = columns;
    row_blocks_ = RowBlocks<Tiling>(way, rows_);
    for (int rb = 0; rb < row_blocks_; ++rb) {
      const int row = PartStart(rows_, row_blocks_, rb);
      const int rows = PartStart(rows_, row_blocks_, rb + 1) - row;
      if (MeetsStored<Tiling, S>(rows_)) {
        const int ahead = kLineAStep<S> ? LinesAhead(way, columns, row_blocks_, rb) : 0;
        cut_[rb] = {FindTile<V, Tiling, S>(rows, columns, ahead), row, ahead};
      } else {
        const int ahead = LinesAhead(way, columns, row_blocks_, rb);
        cut_[rb] = {FindTile<V, Tiling, InBlocks>(rows, columns, ahead), row, ahead};
      }
    }
  }

  // One K block, every row block: `t.prefetch` is prefetched by all row blocks in turns, or what is near by the first.
  // (`t` is written in pieces: a copy of it would wait for them.)
  void AddBlock(TileArgs& t) {
    const float* const* x = t.x;
    float* const sums = t.sums;
    const float* const from = t.from;
    for (int rb = 0; rb < row_blocks_; ++rb) {
      const RowBlock& block = cut_[rb];
      t.x = x + block.row;
      t.sums = sums + block.row * sums_.stride();
      t.from = from + block.row * t.from_stride;
      block.tile(t);
      t.prefetch += LinesIn(t.depth, block.ahead) * t.line_step;  // of no meaning where near
    }
  }

  const PackedProduct& p_;
  const ProductArgs& args_;
  ProductScratch& scratch_;
  typename S::Tiled tiled_;
  PanelSums<V> sums_;
  bool pairs_ = false, backwards_ = false;
  int first_ = 0, rows_ = 0, blocks_ = 0;
  // How the chunk's rows are cut. Of columns side by side: for tiles of cut_columns_ columns, which are read that way.
  struct RowBlock {
    TileFunction tile;
    int row, ahead;
  };
  int row_blocks_ = 0, cut_columns_ = 0;
  StreamWay cut_way_ = StreamWay::kUsual;
  RowBlock cut_[kApart<Tiling> ? 1 : Tiling::Blocks(kChunkRows)];
  // Of columns apart; and the tiles met so far, by what they read, rows and columns.
  int row_start_[kApart<Tiling> ? Tiling::Blocks(kChunkRows) + 1 : 1] = {};
  TileFunction tiles_[3][kApart<Tiling> ? Tiling::kRows + 1 : 1][kMaxColumns + 1] = {};
  const float* packed_[kMaxSegments] = {};  // by segment; null: rows are read where they lie
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_INL_H_
