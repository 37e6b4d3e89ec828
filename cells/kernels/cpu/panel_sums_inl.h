// Where the sums of one panel, or of a pair, are added up, and what they start from. Included only by the one file of each
// instruction set.
//
//   in scratch   row r: | block 0: group 0, 1, .. | block 1: .. |     or where the tail would store them, if it does nothing else
//   start        from the bias where it lies (the first segment's tiles read it there), from rows of sums made earlier
//                (`initial`), or, group by group, from rows of floats (`starts`)
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PANEL_SUMS_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PANEL_SUMS_INL_H_

#include <cstddef>
#include <cstdint>

#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {

template <class V>
class PanelSums {
 public:
  struct May {
    bool stand_in_place;  // nothing is done with sums but what the tail does
    bool begin;           // tiles read what they add to by TileArgs::from
  };
  PanelSums(const PackedProduct& product, const ProductArgs& args, ProductScratch* scratch, May may)
      : p_(product),
        args_(args),
        scratch_(*scratch),
        in_place_(may.stand_in_place && FitInPlace()),
        may_begin_(may.begin) {}

  // Rows [first, first + rows) from here on.
  void StartChunk(int first, int rows) {
    first_ = first;
    rows_ = rows;
    FindBeginning();
  }

  // Of a panel from here on, or of a pair of them: so many blocks.
  void Place(int panel, int blocks) {
    panel_ = panel;
    blocks_ = blocks;
    // (A block that is no whole one would reach beyond its rows.)
    stand_ = in_place_ && (panel * p_.blocks_per_panel() + blocks) * kLanes <= p_.units();
    stride_ = stand_ ? Stored(0).stride : int64_t{blocks} * p_.groups() * kLanes;
    sums_ = stand_ ? Stored(0).Row(first_) + int64_t{panel} * p_.blocks_per_panel() * kLanes
                   : scratch_.accumulators();
    for (int b = 0; b < blocks; ++b) {
      for (int g = 0; g < p_.groups(); ++g) {
        at_[b * p_.groups() + g] =
            stand_ ? static_cast<int32_t>(Stored(g).base - Stored(0).base) + b * kLanes
                   : (b * p_.groups() + g) * kLanes;
      }
    }
  }
  bool StandInPlace() const { return stand_; }

  // The sums of block b, group g of row r stand at Row(r) + At(b, g), and rows stride() apart.
  int32_t At(int block, int group) const { return at_[block * p_.groups() + group]; }
  float* Row(int r) const { return sums_ + r * stride_; }
  int64_t stride() const { return stride_; }

  // Where the panel's part of a row of accumulators starts.
  int64_t PanelStart() const {
    return int64_t{panel_} * p_.blocks_per_panel() * p_.groups() * kLanes;
  }

  // What the sums of a segment start from. Null: what they are.
  const float* StartOf(size_t segment) const {
    return (begins_ >> segment & 1) != 0 ? p_.bias() + PanelStart() : nullptr;
  }

  // Where the segment's columns lie in a row of accumulators, of both panels of a pair; returns how many.
  int FindColumns(const PackedProduct::Segment& segment, int32_t* column) const {
    int columns = 0;
    for (int b = 0; b < blocks_; ++b) {
      for (int g = 0; g < segment.groups; ++g) {
        column[columns++] = At(b, segment.group[g]);
      }
    }
    return columns;
  }

  // Where the same columns lie in a row of the bias.
  void FindStartColumns(const PackedProduct::Segment& segment, int32_t* column) const {
    for (int b = 0; b < blocks_; ++b) {
      for (int g = 0; g < segment.groups; ++g) {
        *column++ = (b * p_.groups() + segment.group[g]) * kLanes;
      }
    }
  }

  void Initialise() {
    if (begun_ == (1u << p_.groups()) - 1) return;
    const int64_t at = PanelStart();
    const float** initial = scratch_.initial_rows();
    for (int r = 0; r < rows_; ++r) {
      if (args_.initial == nullptr) {
        Start(p_.bias() + at, Row(r));
        continue;
      }
      // Rows of a big table are far away and in no order: fetch each one's part of the next panel meanwhile. (Harmless
      // beyond the last: a prefetch never faults.)
      const float* const from = initial[r] + at;
      const int64_t width = int64_t{blocks_} * p_.groups() * kLanes;
      for (int64_t i = 0; i < width; i += kLanes) __builtin_prefetch(from + width + i, 0, 2);
      Start(from, Row(r));
    }
    if (args_.starts != nullptr) GoOn();
  }

  // Groups that do not read the segment stay as they are, to the bit. `with_signs`: of the
  // zeros that a chain leaves (ZeroTerms).
  void AddZeros(int s, bool with_signs) {
    const PackedProduct::Segment& segment = p_.segments()[static_cast<size_t>(s)];
    const float* const terms = p_.ZeroTerms(s) + PanelStart();
    for (int b = 0; b < blocks_; ++b) {
      for (int c = 0; c < segment.groups; ++c) {
        const int64_t at = (int64_t{b} * p_.groups() + segment.group[c]) * kLanes;
        const V zero = with_signs ? V::Load(terms + at) : V::Broadcast(0.0f);
        for (int r = 0; r < rows_; ++r) {
          float* const sum = Row(r) + At(b, segment.group[c]);
          (V::Load(sum) + zero).Store(sum);
        }
      }
    }
  }

  // The panel's accumulators as they are, to rows of accumulator_width() floats.
  void CopyOut(float* out, int64_t out_stride) const {
    const int64_t at = PanelStart();
    for (int r = 0; r < rows_; ++r) {
      const float* const row = Row(r);
      float* const to = out + (first_ + r) * out_stride + at;
      for (int64_t i = 0; i < stride_; i += kLanes) V::Load(row + i).Store(to + i);
    }
  }

 private:
  // Where sums are added up is where the tail stores them: rows that follow each other, as far apart for every group.
  bool FitInPlace() const {
    const TailMatch& match = p_.tail_match();
    if (match.shape != TailShape::kIdentity) return false;
    for (int g = 0; g < p_.groups(); ++g) {
      if (match.stored[g] < 0) return false;
      const RowColumn &first = Stored(0), &column = Stored(g);
      const int64_t between = column.base - first.base;
      if (column.rows != nullptr || column.stride != first.stride) return false;
      if (between != static_cast<int32_t>(between)) return false;
    }
    return p_.groups() > 0;
  }
  const RowColumn& Stored(int group) const { return args_.columns[p_.tail_match().stored[group]]; }

  // Which segments begin their groups' sums: their tiles start from the bias itself, and nobody has to write that to all rows
  // first. Those of which no group has had anything added before, be it zeros.
  void FindBeginning() {
    begins_ = begun_ = 0;
    if (!may_begin_ || args_.initial != nullptr || args_.starts != nullptr) return;
    uint32_t added = 0;
    for (size_t s = 0; s < p_.segments().size(); ++s) {
      const PackedProduct::Segment& segment = p_.segments()[s];
      uint32_t groups = 0;
      for (int g = 0; g < segment.groups; ++g) groups |= 1u << segment.group[g];
      const bool begins =
          (added & groups) == 0 && segment.depth > 0 && args_.inputs[s].base != nullptr;
      if (begins) begun_ |= groups;
      if (begins) begins_ |= 1u << s;
      added |= groups;
    }
  }

  // A row of sums starts as `from` lies, but for those that are begun elsewhere.
  void Start(const float* from, float* row) {
    int i = 0;
    for (int b = 0; b < blocks_; ++b) {
      for (int g = 0; g < p_.groups(); ++g, ++i) {
        if ((begun_ >> g & 1) == 0) V::Load(from + i * kLanes).Store(row + at_[i]);
      }
    }
  }

  // Groups whose sums were begun elsewhere go on from there.
  void GoOn() {
    for (int g = 0; g < p_.groups(); ++g) {
      if (args_.starts[g].base == nullptr) continue;
      const float** from = scratch_.start_rows(g);
      for (int b = 0; b < blocks_; ++b) {
        const int unit = (panel_ * p_.blocks_per_panel() + b) * kLanes, rest = p_.units() - unit;
        float* const to = sums_ + At(b, g);
        for (int r = 0; r < rows_; ++r) {
          const float* const sum = from[r] + unit;
          (rest >= kLanes ? V::Load(sum) : V::LoadPart(sum, rest)).Store(to + r * stride_);
        }
      }
    }
  }

  const PackedProduct& p_;
  const ProductArgs& args_;
  ProductScratch& scratch_;
  const bool in_place_, may_begin_;
  int first_ = 0, rows_ = 0;  // of the chunk
  uint32_t begins_ = 0;       // bit s: segment s does, in the chunk
  uint32_t begun_ = 0;        // bit g: one of them has group g
  int panel_ = 0, blocks_ = 0;
  bool stand_ = false;  // of the panel: in place
  float* sums_ = nullptr;
  int64_t stride_ = 0;
  int32_t at_[2 * kPanelSums] = {};
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PANEL_SUMS_INL_H_
