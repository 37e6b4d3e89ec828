// A stacked product with a fused element-wise tail: the one operation nearly all of a cell's time
// goes into.
//
//   accumulator of group g, unit u, row r  =  bias[g][u]  +  sum over segments s, in order, of
//                                             sum over k, in order, of  x_s[r][k] * W_s,g[u][k]
//
// then the tail runs on the accumulators of 16 units, and only its stores reach memory. Groups are
// the parts of the product that meet again in one unit (four gates of one hidden unit); segments
// are the inputs (x, then h). Any (segment, group) may be absent and then costs nothing. Instead of
// the bias the sum may start from a row of accumulators made earlier (`initial`): a folded
// embedding x input matrix, say. Because every accumulator is one chain of fused multiply-adds in
// the order above, such a row continues with the very bits of the plain path, and no result depends
// on the batch, on the position in it or on who computes which panel. For the same reason a segment
// whose rows are all zeros need not be multiplied: see ZeroTerms.
//
// Weights are packed once, at load, in the order in which the kernels of an instruction set read them (WeightOrder; README.md
// draws both):
//
//   panel 0                                              panel 1 ...
//   | segment 0: K0 x [columns][16] | segment 1: K1 x .. | ...        kStepByStep
//   | segment 0: columns x [K0][16] | segment 1: ..      | ...        kColumnByColumn
//
// A panel is the unit of work: as many blocks of 16 units as make up to four columns of 16
// accumulators in each segment (one block where a segment has 3 or 4 groups, two with 2, four with
// 1; five groups are one block of five columns), so that small batches keep enough independent
// chains going however few groups a segment has.
//
// Weights are stored in the product's precision (cells/precision.h) and expanded to floats on the way into registers:
//
//   kFp32  16 floats a column and step of k
//   kBf16  16 words, a step being two k, the first in the upper half: the pairs that dot products of bf16 read, which begin
//          with that one. Its inputs must have been rounded (`round_to_bf16` of the table) and be readable, and zero, up to
//          an even depth
//   kFp32Split  the same twice for each pair: of all columns what is rounded to bf16, then of all what is left, rounded, too.
//          Its inputs must have been split (`split_to_bf16` of the table)
//   kW8    16 int8. A segment's terms are summed from zero as they are stored and then added at once:
//          sum = fma(sum of x * stored, scale, sum); so what another product begins and leaves is a sum like any other
//
// Ownership: PackedProduct owns its memory (64-byte aligned, huge pages asked for, readable beyond
// the end) and is immutable: any number of threads may run panels of it at once. Pack: load time
// only, allocates. Running allocates nothing.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "cells/bf16.h"
#include "cells/kernels/cpu/compiled_tail.h"
#include "cells/kernels/cpu/packed_memory.h"
#include "cells/kernels/cpu/product_limits.h"
#include "cells/kernels/cpu/rows.h"
#include "cells/kernels/cpu/tail_code.h"
#include "cells/kernels/cpu/tail_isa.h"
#include "cells/kernels/cpu/tail_shape.h"
#include "cells/precision.h"
#include "cells/program/tail_program.h"

namespace cellbatch::kernels {

// Columns of 16 accumulators that a panel has in the segment that has most; and the most that it can have there, and of
// all segments.
inline constexpr int kPanelColumns = 4;
inline constexpr int kMaxColumns = kMaxGroups;
inline constexpr int kPanelSums = 2 * kPanelColumns;
inline constexpr int kPanelUnits = kPanelColumns * kLanes;  // the most units of a panel
inline constexpr int kChunkRows = 128;    // rows computed together; more are equal chunks
inline constexpr int kLargestRows = 512;  // rows of one call that keeps the largest of each
// Rows for which an instruction of a tail is done before the next: enough to be worth finding out which, few enough for
// their values to stay in L1.
inline constexpr int kTailRowsAtOnce = 16;

// Where Pack reads a matrix of [units][depth]: element (u, k) is data[u * unit_stride + k *
// depth_stride].
struct WeightView {
  const float* data = nullptr;  // null: this group has no such term
  int64_t unit_stride = 0;
  int64_t depth_stride = 1;
};

struct SegmentSpec {
  int32_t depth = 0;  // K
  WeightView weights[kMaxGroups];
  // kW8, by group, [units]: the magnitude that 127 stands for, no less than any of that unit's weights here. Null: the
  // largest of them.
  const float* largest[kMaxGroups] = {};
};

// kW8: what a stored 1 stands for where 127 stands for `largest`. Of what is so little that its scale would be a denormal,
// which kernels may take for zero, nothing is left.
float ScaleOfLargest(float largest);
// The int8 nearest to weight / scale, ties to even; 0 where the scale is, and of NaN.
int8_t Quantised(float weight, float scale);

// How the columns of a segment lie in a panel. What reads several columns at once wants a step of k of all of them side by
// side; what has registers for one wants that one's steps without gaps.
enum class WeightOrder : uint8_t { kStepByStep, kColumnByColumn };

// What a table of kernels wants of the products that it runs (CpuKernels::packing).
struct Packing {
  WeightOrder order = WeightOrder::kStepByStep;  // of no meaning without segments
  TailIsa tails =
      TailIsa::kNone;  // compiled for it where that is useful; no bit of a result depends on it
};

// What to pack. Views are read during the call only.
struct ProductSpec {
  int32_t units = 0;   // U
  int32_t groups = 1;  // 0..kMaxGroups; 0, without segments: an element-wise program and no product
  Precision precision = Precision::kFp32;
  std::vector<SegmentSpec> segments;
  const float* bias[kMaxGroups] = {};  // [units] each; null: zero
  TailProgram tail;
  std::vector<const float*> parameters;  // [units] each, as many as the tail names
};

class PackedProduct {
 public:
  struct Segment {
    int32_t depth;
    int32_t groups;             // groups that have this term
    int32_t group[kMaxGroups];  // which
    int64_t offset;             // stored numbers from the start of a full panel
    int64_t last_offset;        // the same in the last panel, which may have fewer columns
  };

  explicit PackedProduct(const ProductSpec& spec, const Packing& packing = {});

  int32_t units() const { return units_; }
  int32_t groups() const { return groups_; }
  Precision precision() const { return precision_; }
  WeightOrder order() const { return packing_.order; }
  int num_panels() const { return num_panels_; }
  int num_blocks() const { return num_blocks_; }  // of 16 units
  int blocks_per_panel() const { return blocks_per_panel_; }
  int BlocksOf(int panel) const;
  // Floats of one row of accumulators, [num_blocks][groups][16]: the layout of `initial` rows.
  int64_t accumulator_width() const { return int64_t{num_blocks_} * groups_ * kLanes; }
  int64_t weight_bytes() const { return stored_ * StoredBytes(precision_); }
  int64_t multiply_adds() const { return stored_; }  // of one row
  int64_t multiply_adds(int segment) const;          // of that one's
  static int64_t StoredBytes(Precision precision);   // of one weight
  // Weights stored of one column of a segment: in pairs, if those are stored.
  static int64_t StoredDepth(Precision precision, int32_t depth);

  const std::vector<Segment>& segments() const { return segments_; }
  // Of the type that is stored: float, uint16_t, int8_t.
  template <typename Stored = float>
  const Stored* Weights(int panel, const Segment& s) const {
    return reinterpret_cast<const Stored*>(weights_.data()) + panel_stored_ * panel +
           (panel == num_panels_ - 1 ? s.last_offset : s.offset);
  }
  // kW8: in the layout of accumulators, what a stored 1 of segment `s` stands for.
  const float* Scales(int s) const { return scales_.data() + accumulator_width() * s; }
  const float* bias() const { return bias_.data(); }  // [num_blocks][groups][16]
  // What segment `s` adds to the accumulators where its row is all +0 and its weights are finite, in the same layout: one
  // zero, with the sign that the chain of its fma(+0, w, sum) leaves a sum of -0. That is -0 if every w is negative, and
  // the first w that is not makes it +0 for good. Any other sum the chain leaves as it is, as does the one addition.
  const float* ZeroTerms(int s) const { return zero_terms_.data() + accumulator_width() * s; }
  const float* Parameter(int i) const {
    return parameters_.data() + int64_t{i} * num_blocks_ * kLanes;
  }
  const TailProgram& tail() const { return tail_; }
  const TailMatch& tail_match() const { return match_; }
  const TailCode& tail_code() const { return code_; }
  // Whether it only makes a few numbers of each row. Then rows are the lanes that its tail is run on, its code reads every
  // number as a column, and parameters are in all lanes.
  bool IsOfNumbers() const { return units_ == 1 && groups_ == 0; }
  // For these registers. Null: none, the tail has a shape of its own, or there is no whole block of units to run it on.
  const CompiledTail* compiled_tail(TailIsa isa) const {
    return isa == packing_.tails ? compiled_.get() : nullptr;
  }

 private:
  template <typename Stored>
  void PackPanel(const ProductSpec& spec, int panel);
  void PackSplitPanel(const ProductSpec& spec, int panel);
  void PackUnitValues(const ProductSpec& spec);
  void FindScales(const ProductSpec& spec);
  void FindZeroTerms(const ProductSpec& spec);

  int32_t units_, groups_;
  Precision precision_;
  Packing packing_;
  int num_blocks_, blocks_per_panel_, num_panels_;
  int64_t panel_stored_ = 0, stored_ = 0;  // numbers
  std::vector<Segment> segments_;
  TailProgram tail_;
  TailMatch match_;
  TailCode code_;
  std::unique_ptr<CompiledTail> compiled_;
  PackedMemory weights_, bias_, parameters_, zero_terms_, scales_;
};

// The largest element of one row that was seen so far, and its unit: of equals the lowest. NaN is never larger; -1: there
// was nothing else yet. What two threads found of one row is merged in any order.
struct Largest {
  float value = -std::numeric_limits<float>::infinity();
  int32_t unit = -1;

  void Take(const Largest& other) {
    if (other.unit < 0 || other.value < value) return;
    if (unit < 0 || other.value > value || other.unit < unit) *this = other;
  }
};

// One call's rows. inputs: one per segment; one without a base is all +0, in every row. columns: one per column of the tail. Rows that a tail
// stores may be read by the same tail (a state updated in place), never as an input of the product
// or as `initial`.
struct ProductArgs {
  int32_t num_rows = 0;
  const RowSource* inputs = nullptr;
  const RowSource* initial =
      nullptr;  // rows of accumulator_width() floats, 64-byte aligned; null: the bias
  const RowColumn* columns = nullptr;
  // By row; not null: the tail's only column is stored nowhere, and the largest of it in the panels of this call is taken
  // into these (an argmax over 30,000 words needs no row of 30,000 floats in memory). At most kLargestRows rows.
  Largest* largest = nullptr;
  // By group, not beside `initial`: rows of units() floats, which that group's sums start from instead of the bias; one
  // without a base: the bias. Null: all of them.
  const RowSource* starts = nullptr;
  // Of a product whose panels several calls share: calls with the same number are of one run, and read the same rows. A
  // thread then packs them once for all of its panels (packed_rows_inl.h), of which there are about so many. 0: this call is
  // one by itself.
  uint64_t run = 0;
  int panels_of_run = 0;
  // The first chunk of rows passes over the panels from the last to the first, and each one the other way than the one before
  // it: no bit depends on that, but weights are read first that were read last (PanelWalk).
  bool from_last = false;
};

// How often so many rows of one call pass over its panels: once a chunk.
constexpr int PassesOf(int rows) { return (rows + kChunkRows - 1) / kChunkRows; }

// From which end of its panels a product is run. Caches hold what was read last, and of more than they hold lose the rest: whoever
// always starts at the first panel finds it gone, and evicts the next one by reading it. So a run starts where the one before
// ended, and finds there what caches hold.
//
//   L2 of 1 MiB, weights of 2         run 1   |================>    run 2   <================|
//                                              read  <--- held                held --->  read
class PanelWalk {
 public:
  // For ProductArgs::from_last of a run that passes over the panels so often.
  bool FromLast(int passes) {
    const bool from_last = at_last_;
    if (passes % 2 == 1) at_last_ = !at_last_;
    return from_last;
  }

 private:
  bool at_last_ = false;  // where the run before ended
};

// How a batch reads the weights of a product. Which ways there are for so many rows is the tiling's (tiling.h).
enum class StreamWay : uint8_t {
  kUsual,        // what the instruction set's tiling prefers
  kUndisturbed,  // nothing prefetched: a panel after the other, its columns side by side, or row blocks in turns over short blocks of K
  kPaired,  // a panel is passed over once, two at a time: two streams; of more rows than registers hold sums of: undisturbed
  kPrefetched,  // one panel after the other, short blocks of K, prefetched to L1 before they are needed
  kSpread,  // long blocks of K, which several row blocks pass over; each prefetches its part of the next one
  // The same of short blocks, which stay in L1: every second line is prefetched, which brings the one beside it on many CPUs.
  kShort,
};
inline constexpr int kNumWays = 6;
// The most rows of a row block of any tiling.
inline constexpr int kMostBlockRows = 8;

// What differs between machines and is not worth asking CPUID for; never changes a bit of any result. tuning.h measures.
struct Tuning {
  // Batches that are tuned together: each of so few rows that they may be one row block, up to 12 rows, 16, 48, all others.
  static constexpr int kRowClasses = kMostBlockRows + 5;
  static constexpr int ClassOf(int rows) {
    int row_class = rows < kMostBlockRows ? rows : kMostBlockRows;
    while (rows > MostRowsOf(row_class)) ++row_class;
    return row_class;
  }
  static constexpr int MostRowsOf(int row_class) {
    constexpr int kOfMore[] = {12, 16, 48, INT32_MAX};
    return row_class <= kMostBlockRows ? row_class : kOfMore[row_class - kMostBlockRows - 1];
  }
  using Ways = std::array<StreamWay, kRowClasses>;

  Ways near = {},
       far = {};  // by class, of weights that the cores' shared cache keeps and of others
  // Of the cache that cores share; 0: unknown. Products of about so many bytes of weights and more are read from memory.
  int64_t cache_bytes = 0;
  // Of the cache that each core has to itself; 0: unknown. Products of half as many bytes are taken to stay there.
  int64_t core_cache_bytes = 0;
  // What one core does of them, with weights at hand (MeasureMultiplyAddsPerNs): how long a step will take is guessed from
  // it.
  double multiply_adds_per_ns = 50;

  bool IsNear(int64_t weight_bytes) const { return weight_bytes <= core_cache_bytes / 2; }
  bool IsFar(int64_t weight_bytes) const {
    return cache_bytes > 0 && weight_bytes > cache_bytes - cache_bytes / 8;
  }
  StreamWay WayOf(int rows, bool is_far) const {
    return (is_far ? far : near)[static_cast<size_t>(ClassOf(rows))];
  }
};

// So many panels of a thread are worth packing its rows for, which takes it as long as half a panel does.
inline constexpr int kLeastPanelsToPackFor = 16;

// The most of K that any tiling passes over at once.
inline constexpr int kMostBlockOfK = 512;

// What one thread needs while it runs a product: about 1.4 MiB, reused for ever; of fp32 products 170 KiB are touched, and
// where rows are packed as much more as they take.
class ProductScratch {
 public:
  explicit ProductScratch(Tuning tuning = {});
  const Tuning& tuning() const { return tuning_; }
  float* accumulators() { return memory_.data(); }
  float* values() { return memory_.data() + kAccumulatorFloats; }
  // One column of a panel, or of the two of a pair (of few rows): row after row of a chunk.
  float* panel() { return memory_.data() + kAccumulatorFloats + kValueFloats; }
  // kW8: the terms of one segment, beside the accumulators and laid like them.
  float* terms() { return panel() + kPanelFloats; }
  // A block of K of one panel, as floats.
  float* expanded() { return terms() + kAccumulatorFloats; }
  // A chunk's rows, packed (packed_rows_inl.h): of segments as many as there is room for. Touched by few instruction sets.
  static constexpr int64_t kPackedFloats = int64_t{kChunkRows} * 2048;
  float* packed_rows() { return packed_rows_.data(); }
  // The run whose rows they are, all of them; 0: nobody's who comes back for them.
  uint64_t& packed_run() { return packed_run_; }
  Largest* largest() { return largest_.data(); }  // [kLargestRows], for whom the caller runs panels
  const float** input_rows(int segment) { return rows_.data() + segment * kChunkRows; }
  // [kMaxTailColumns][kChunkRows]
  const float** column_rows() {
    return rows_.data() + (kMaxSegments + 1 + kMaxGroups) * kChunkRows;
  }
  const float** initial_rows() { return rows_.data() + kMaxSegments * kChunkRows; }
  const float** start_rows(int group) {
    return rows_.data() + (kMaxSegments + 1 + group) * kChunkRows;
  }

 private:
  static constexpr int64_t kAccumulatorFloats = kChunkRows * kPanelSums * kLanes;
  static constexpr int64_t kValueFloats = int64_t{kMaxTailOps} * kTailRowsAtOnce * kLanes;
  static constexpr int64_t kPanelFloats = int64_t{kChunkRows} * kPanelUnits;
  static constexpr int64_t kExpandedFloats = int64_t{kMostBlockOfK} * kMaxColumns * kLanes;
  Tuning tuning_;
  PackedMemory memory_, packed_rows_;
  uint64_t packed_run_ = 0;
  std::vector<Largest> largest_;
  std::vector<const float*> rows_;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PRODUCT_H_
