// Tails on hot accumulators, for one Vec: any tail, instruction by instruction over several rows (tail_code.h), and the
// shapes that ClassifyTail knows.
// Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_INL_H_

#include <cstdint>
#include <initializer_list>

#include "cells/kernels/cpu/abreast.h"
#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/vector_math.h"

namespace cellbatch::kernels {

// Where the tail of one block of 16 units stands: rows [first, first + rows) of the call's lists.
struct TailSite {
  const PackedProduct* product;
  const RowColumn* columns;
  int block;
  int lanes;                  // 16, or what the last block has
  const float* accumulators;  // of row `first`: [groups][16]
  int64_t accumulator_stride;
  int first, rows;
  float* values;  // room for the slots of tail_code.h

  const float* Accumulator(int r, int g) const {
    return accumulators + r * accumulator_stride + g * kLanes;
  }
  float* Column(int c, int r) const { return columns[c].Row(first + r) + int64_t{block} * kLanes; }
};

// Full blocks load and store whole registers; the last may not touch what is beyond the row.
template <class V, bool kFull>
struct Edge {
  static V Load(const float* p, int lanes) { return kFull ? V::Load(p) : V::LoadPart(p, lanes); }
  static void Store(V v, float* p, int lanes) {
    if (kFull) {
      v.Store(p);
    } else {
      v.StorePart(p, lanes);
    }
  }
};

// Rows of one instruction's operands, and where its values go.
struct TailRows {
  float* to;  // every kLanes
  const float *a, *b, *c;
  int64_t a_stride, b_stride, c_stride;
  int rows;
  const float* d = nullptr;
  int64_t d_stride = 0;
};

// (What does not change is copied first: a store of a register may change anything, as far as a compiler knows.)
template <class V, class F>
[[gnu::always_inline]] inline void EachRow(TailRows t, F f) {
  for (int r = 0; r < t.rows; ++r) {
    f(V::Load(t.a)).Store(t.to);
    t.a += t.a_stride;
    t.to += kLanes;
  }
}

// The same of a long function: several rows side by side.
template <class V, class F>
[[gnu::always_inline]] inline void EachRowAtLength(TailRows t, F f) {
  EachRowAbreast<V>(
      t.rows, [&](int, auto rows) __attribute__((always_inline)) {
        using Rows = decltype(rows);
        const auto a = Rows::Make([&](int i) __attribute__((always_inline)) {
          return V::Load(t.a + i * t.a_stride);
        });
        f(a).Each([&](int i, V y) __attribute__((always_inline)) { y.Store(t.to + i * kLanes); });
        t.a += Rows::kRows * t.a_stride;
        t.to += Rows::kRows * kLanes;
      });
}

template <class V, class F>
[[gnu::always_inline]] inline void EachTwoAtLength(TailRows t, F f) {
  EachRowAbreast<V>(
      t.rows, [&](int, auto rows) __attribute__((always_inline)) {
        using Rows = decltype(rows);
        const auto a = Rows::Make([&](int i) __attribute__((always_inline)) {
          return V::Load(t.a + i * t.a_stride);
        });
        const auto b = Rows::Make([&](int i) __attribute__((always_inline)) {
          return V::Load(t.b + i * t.b_stride);
        });
        f(a, b).Each([&](int i, V y)
                         __attribute__((always_inline)) { y.Store(t.to + i * kLanes); });
        t.a += Rows::kRows * t.a_stride;
        t.b += Rows::kRows * t.b_stride;
        t.to += Rows::kRows * kLanes;
      });
}

template <class V, class F>
[[gnu::always_inline]] inline void EachTwo(TailRows t, F f) {
  for (int r = 0; r < t.rows; ++r) {
    f(V::Load(t.a), V::Load(t.b)).Store(t.to);
    t.a += t.a_stride;
    t.b += t.b_stride;
    t.to += kLanes;
  }
}

template <class V, class F>
[[gnu::always_inline]] inline void EachThree(TailRows t, F f) {
  for (int r = 0; r < t.rows; ++r) {
    f(V::Load(t.a), V::Load(t.b), V::Load(t.c)).Store(t.to);
    t.a += t.a_stride;
    t.b += t.b_stride;
    t.c += t.c_stride;
    t.to += kLanes;
  }
}

// `b` and `c` (a mean, a scale): one number of each row, the same for all units. `gain` and `bias`: of a unit, the same for all
// rows. `kMore`: and `d` is added.
template <class V, bool kMore>
[[gnu::always_inline]] inline void Normalise(TailRows t, V gain, V bias) {
  for (int r = 0; r < t.rows; ++r) {
    const V normal = (V::Load(t.a) - V::Broadcast(*t.b)) * V::Broadcast(*t.c) * gain + bias;
    if constexpr (kMore) {
      (normal + V::Load(t.d)).Store(t.to);
    } else {
      normal.Store(t.to);
    }
    t.a += t.a_stride;
    t.b += t.b_stride;
    t.c += t.c_stride;
    t.d += t.d_stride;
    t.to += kLanes;
  }
}

// Runs any tail for rows [row, row + rows) of its site; rows <= kTailRowsAtOnce. Slots lie as [slot][row][16].
template <class V, bool kFull>
class TailPass {
 public:
  TailPass(const TailSite& site, int row, int rows) : site_(site), row_(row), rows_(rows) {
    const PackedProduct& product = *site.product;
    const int64_t unit = int64_t{site.block} * kLanes;
    places_[TailOperand::kSlot] = {site.values, kTailRowsAtOnce * kLanes, kLanes};
    places_[TailOperand::kAccumulator] = {site.Accumulator(row, 0), kLanes,
                                          site.accumulator_stride};
    places_[TailOperand::kParameter] = {product.Parameter(0) + unit,
                                        int64_t{product.num_blocks()} * kLanes, 0};
    places_[TailOperand::kConstant] = {product.tail_code().constants.data(), kLanes, 0};
  }

  void Run(const TailInstruction& i) { i.kind <= kLastThatReads ? Read(i) : Compute(i); }

 private:
  // They have no operands: finding out where those lie is what an instruction costs beside its work.
  static constexpr TailInstructionKind kLastThatReads = TailInstructionKind::kLookOne;

  void Read(const TailInstruction& i) {
    if (i.kind == TailInstructionKind::kLook) return Look(i);
    if (i.kind == TailInstructionKind::kLookOne) return LookOne(i);
    if (i.kind == TailInstructionKind::kLoadOne) return LoadOne(i.column, Slot(i.to));
    Load(i.column, Slot(i.to));
  }

  void Compute(const TailInstruction& i) {
    using Kind = TailInstructionKind;
    const Place a = At(i.a), b = At(i.b), c = At(i.c);
    const TailRows t = {Slot(i.to), a.base, b.base, c.base, a.stride, b.stride, c.stride, rows_};
    switch (i.kind) {
      case Kind::kStore:
        return Store(i.column, t);
      case Kind::kAdd:
        return EachTwo<V>(t, [](V x, V y) { return x + y; });
      case Kind::kSub:
        return EachTwo<V>(t, [](V x, V y) { return x - y; });
      case Kind::kMul:
        return EachTwo<V>(t, [](V x, V y) { return x * y; });
      case Kind::kDiv:
        return EachTwo<V>(t, [](V x, V y) { return x / y; });
      case Kind::kMax:
        return EachTwo<V>(t, [](V x, V y) { return V::Max(x, y); });
      case Kind::kSigmoid:
        return EachRowAtLength<V>(t, [](auto x) { return Sigmoid(x); });
      case Kind::kTanh:
        return EachRowAtLength<V>(t, [](auto x) { return Tanh(x); });
      case Kind::kRelu:
        return EachRow<V>(t, [](V x) { return V::Max(V::Broadcast(0.0f), x); });
      case Kind::kExp:
        return EachRow<V>(t, [](V x) { return Exp(x); });
      case Kind::kLog:
        return EachRow<V>(t, [](V x) { return Log(x); });
      case Kind::kSigmoidTanh:
        return EachTwoAtLength<V>(t, [](auto x, auto y) { return SigmoidTimesTanh(x, y); });
      case Kind::kMulAdd:
        return EachThree<V>(t, [](V x, V y, V z) { return x * y + z; });
      case Kind::kSubMul:
        return EachThree<V>(t, [](V x, V y, V z) { return (x - y) * z; });
      case Kind::kNormalise:
        return Normalise<V, false>(t, V::Load(At(i.d).base), V::Load(At(i.e).base));
      case Kind::kNormaliseAdd: {
        const Place more = At(i.f);
        TailRows four = t;
        four.d = more.base, four.d_stride = more.stride;
        return Normalise<V, true>(four, V::Load(At(i.d).base), V::Load(At(i.e).base));
      }
      case Kind::kLoad:
      case Kind::kLook:
      case Kind::kLoadOne:
      case Kind::kLookOne:
        return;  // Read
    }
  }

  // Its next row is `stride` further on.
  struct Place {
    const float* base;
    int64_t stride;
  };
  // Operand n of a kind at base + n * apart.
  struct Places {
    const float* base;
    int64_t apart, stride;
  };

  float* Slot(int slot) const { return site_.values + slot * int64_t{kTailRowsAtOnce * kLanes}; }
  Place At(const TailOperand& o) const {
    if (o.from == TailOperand::kColumn) return looks_[o.index];
    const Places& all = places_[o.from];
    return {all.base + o.index * all.apart, all.stride};
  }
  // Rows that follow each other are read where they lie, if whole blocks of them are there.
  void Look(const TailInstruction& i) {
    const RowColumn from = site_.columns[i.column];
    float* const slot = Slot(i.to);
    if (kFull && from.rows == nullptr) {
      looks_[i.look] = {site_.Column(i.column, row_), from.stride};
    } else {
      Load(i.column, slot);
      looks_[i.look] = {slot, kLanes};
    }
  }
  void LookOne(const TailInstruction& i) {
    const RowColumn from = site_.columns[i.column];
    if (from.rows == nullptr) {
      looks_[i.look] = {from.Row(site_.first + row_), from.stride};
    } else {
      LoadOne(i.column, Slot(i.to));
      looks_[i.look] = {Slot(i.to), kLanes};
    }
  }
  void Load(int column, float* to) const {
    const RowColumn from = site_.columns[column];
    const int first = site_.first + row_, lanes = site_.lanes;
    const int64_t unit = int64_t{site_.block} * kLanes;
    for (int r = 0; r < rows_; ++r) {
      Edge<V, kFull>::Load(from.Row(first + r) + unit, lanes).Store(to + r * kLanes);
    }
  }
  void LoadOne(int column, float* to) const {
    const RowColumn from = site_.columns[column];
    const int first = site_.first + row_;
    for (int r = 0; r < rows_; ++r) V::Broadcast(*from.Row(first + r)).Store(to + r * kLanes);
  }
  void Store(int column, const TailRows& t) const {
    const RowColumn to = site_.columns[column];
    const int first = site_.first + row_, lanes = site_.lanes;
    const int64_t unit = int64_t{site_.block} * kLanes;
    for (int r = 0; r < t.rows; ++r) {
      Edge<V, kFull>::Store(V::Load(t.a + r * t.a_stride), to.Row(first + r) + unit, lanes);
    }
  }

  const TailSite& site_;
  const int row_, rows_;
  Places places_[kTailOperandKinds - 1];  // all but columns
  Place looks_[kMaxTailColumns];
};

template <class V, bool kFull>
void RunAnyTail(const TailSite& site) {
  const TailCode& code = site.product->tail_code();
  const TailInstruction* const end = code.instructions.data() + code.instructions.size();
  for (int row = 0; row < site.rows; row += kTailRowsAtOnce) {
    const int rest = site.rows - row;
    TailPass<V, kFull> pass(site, row, rest < kTailRowsAtOnce ? rest : kTailRowsAtOnce);
    for (const TailInstruction* i = code.instructions.data(); i != end; ++i) pass.Run(*i);
  }
}

// A tail that makes a few numbers of each row (PackedProduct::IsOfNumbers): sixteen rows are its lanes. Of rows that are fewer,
// the first again and again.
template <class V>
void RunTailOfNumbers(const PackedProduct& product, const RowColumn* columns, int first, int rows,
                      float* values) {
  float numbers[kMaxTailColumns][kLanes];
  RowColumn lanes_of[kMaxTailColumns];
  for (int c = 0; c < product.tail().num_columns; ++c) lanes_of[c] = {numbers[c], 0};
  const TailSite site = {&product, lanes_of, 0, kLanes, nullptr, 0, 0, 1, values};
  const TailCode& code = product.tail_code();
  const TailInstruction* const end = code.instructions.data() + code.instructions.size();
  for (int row = first; row < first + rows; row += kLanes) {
    const int rest = first + rows - row, lanes = rest < kLanes ? rest : kLanes;
    TailPass<V, true> pass(site, 0, 1);
    for (const TailInstruction* i = code.instructions.data(); i != end; ++i) {
      using Kind = TailInstructionKind;
      float* const of_column = numbers[i->column];
      for (int l = 0; (i->kind == Kind::kLoad || i->kind == Kind::kLook) && l < kLanes; ++l) {
        of_column[l] = *columns[i->column].Row(row + (l < lanes ? l : 0));
      }
      pass.Run(*i);
      for (int l = 0; i->kind == Kind::kStore && l < lanes; ++l) {
        *columns[i->column].Row(row + l) = of_column[l];
      }
    }
  }
}

// Rows [r, r + how many) of an accumulator, and of a column, side by side.
template <class V, class Rows>
[[gnu::always_inline]] inline Rows LoadSums(const TailSite& site, int r, int group) {
  return Rows::Make([&](int i) { return V::Load(site.Accumulator(r + i, group)); });
}
template <class V, bool kFull, class Rows>
[[gnu::always_inline]] inline Rows LoadColumn(const TailSite& site, int r, int column) {
  return Rows::Make(
      [&](int i) { return Edge<V, kFull>::Load(site.Column(column, r + i), site.lanes); });
}
template <class V, bool kFull, class Rows>
[[gnu::always_inline]] inline void StoreColumn(const TailSite& site, int r, int column,
                                               const Rows& rows) {
  rows.Each([&](int i, V y) { Edge<V, kFull>::Store(y, site.Column(column, r + i), site.lanes); });
}

// Rows that are read and stored lie where the nodes' rows are, in L3 or memory: asks for those of a column that come a few turns
// later, where that was seen to pay (V::kTurnsAhead).
template <class V, class Rows>
[[gnu::always_inline]] inline void FetchColumn(const TailSite& site, int r, int column) {
  if constexpr (V::kTurnsAhead > 0) {
    const int later = r + V::kTurnsAhead * Rows::kRows;
    if (later + Rows::kRows > site.rows) return;
    for (int i = 0; i < Rows::kRows; ++i) {
      __builtin_prefetch(site.Column(column, later + i), 0, 3);
    }
  }
}

// One accumulator, one function, one column.
template <class V, bool kFull, class F>
void OneStore(const TailSite& site, const TailMatch& m, F f) {
  EachRowAbreast<V>(
      site.rows, [&](int r, auto rows) __attribute__((always_inline)) {
        using Rows = decltype(rows);
        StoreColumn<V, kFull>(site, r, m.out, f(LoadSums<V, Rows>(site, r, m.group[0])));
      });
}

template <class V, bool kFull>
void StoreSums(const TailSite& site, const TailMatch& m) {
  for (int g = 0; g < kMaxGroups; ++g) {
    if (m.stored[g] < 0) continue;
    for (int r = 0; r < site.rows; ++r) {
      Edge<V, kFull>::Store(V::Load(site.Accumulator(r, g)), site.Column(m.stored[g], r),
                            site.lanes);
    }
  }
}

template <class V, bool kFull>
void GatedCell(const TailSite& site, const TailMatch& m) {
  EachRowAbreast<V>(
      site.rows, [&](int r, auto rows) __attribute__((always_inline)) {
        using Rows = decltype(rows);
        const auto sums = [&](int gate) __attribute__((always_inline)) {
          return LoadSums<V, Rows>(site, r, m.group[gate]);
        };
        for (const int column : {m.in, m.out2, m.out}) FetchColumn<V, Rows>(site, r, column);
        const auto c = LoadColumn<V, kFull, Rows>(site, r, m.in);
        const auto kept = Sigmoid(sums(1)) * c;
        const auto cell = kept + SigmoidTimesTanh(sums(0), sums(2));
        StoreColumn<V, kFull>(site, r, m.out2, cell);
        StoreColumn<V, kFull>(site, r, m.out, SigmoidTimesTanh(sums(3), cell));
      });
}

template <class V, bool kFull>
void GatedUpdate(const TailSite& site, const TailMatch& m) {
  EachRowAbreast<V>(
      site.rows, [&](int r, auto rows) __attribute__((always_inline)) {
        using Rows = decltype(rows);
        const auto sums = [&](int gate) __attribute__((always_inline)) {
          return LoadSums<V, Rows>(site, r, m.group[gate]);
        };
        for (const int column : {m.in, m.out}) FetchColumn<V, Rows>(site, r, column);
        const auto h = LoadColumn<V, kFull, Rows>(site, r, m.in);
        const auto reset = Sigmoid(sums(0));
        const auto update = Sigmoid(sums(1));
        const auto n = Tanh(Rows::Fma(reset, sums(3), sums(2)));
        StoreColumn<V, kFull>(site, r, m.out, Rows::Fma(update, h - n, n));
      });
}

template <class V, bool kFull>
void TailOfShape(const TailSite& site, const TailMatch& m) {
  switch (m.shape) {
    case TailShape::kGeneral:
      return RunAnyTail<V, kFull>(site);
    case TailShape::kIdentity:
      return StoreSums<V, kFull>(site, m);
    case TailShape::kSigmoid:
      return OneStore<V, kFull>(site, m, [](auto a) { return Sigmoid(a); });
    case TailShape::kTanh:
      return OneStore<V, kFull>(site, m, [](auto a) { return Tanh(a); });
    case TailShape::kRelu:
      return OneStore<V, kFull>(
          site, m, [](auto a) { return decltype(a)::Max(decltype(a)::Broadcast(0.0f), a); });
    case TailShape::kGatedCell:
      return GatedCell<V, kFull>(site, m);
    case TailShape::kGatedUpdate:
      return GatedUpdate<V, kFull>(site, m);
  }
}

template <class V>
void RunTail(const TailSite& site, const TailMatch& match) {
  if (site.lanes == kLanes) {
    TailOfShape<V, true>(site, match);
  } else {
    TailOfShape<V, false>(site, match);
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TAIL_INL_H_
