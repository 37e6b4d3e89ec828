// Tails on hot accumulators, for one Vec: the interpreter, and the shapes that ClassifyTail knows.
// Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TAIL_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TAIL_INL_H_

#include <cstdint>

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
  float* values;  // room for the interpreter

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

// Operation `i` for up to kTailRowsAtOnce rows from `row`. Values lie as [operation][row][16].
template <class V, bool kFull>
void InterpretOp(const TailSite& site, int i, int row, int rows) {
  using E = Edge<V, kFull>;
  const auto value = [&site](int op, int r) {
    return site.values + (int64_t{op} * kTailRowsAtOnce + r) * kLanes;
  };
  const TailOp& op = site.product->tail().ops[i];
  for (int r = 0; r < rows; ++r) {
    float* const to = value(i, r);
    const auto a = [&] { return V::Load(value(op.a, r)); };
    const auto b = [&] { return V::Load(value(op.b, r)); };
    switch (op.kind) {
      case TailOpKind::kAccumulator:
        V::Load(site.Accumulator(row + r, op.index)).Store(to);
        break;
      case TailOpKind::kColumn:
        E::Load(site.Column(op.index, row + r), site.lanes).Store(to);
        break;
      case TailOpKind::kParameter:
        V::Load(site.product->Parameter(op.index) + int64_t{site.block} * kLanes).Store(to);
        break;
      case TailOpKind::kConstant:
        V::Broadcast(op.constant).Store(to);
        break;
      case TailOpKind::kStore:
        E::Store(a(), site.Column(op.index, row + r), site.lanes);
        break;
      case TailOpKind::kAdd:
        (a() + b()).Store(to);
        break;
      case TailOpKind::kSub:
        (a() - b()).Store(to);
        break;
      case TailOpKind::kMul:
        (a() * b()).Store(to);
        break;
      case TailOpKind::kDiv:
        (a() / b()).Store(to);
        break;
      case TailOpKind::kMax:
        V::Max(a(), b()).Store(to);
        break;
      case TailOpKind::kSigmoid:
        Sigmoid(a()).Store(to);
        break;
      case TailOpKind::kTanh:
        Tanh(a()).Store(to);
        break;
      case TailOpKind::kRelu:
        V::Max(V::Broadcast(0.0f), a()).Store(to);
        break;
      case TailOpKind::kExp:
        Exp(a()).Store(to);
        break;
      case TailOpKind::kLog:
        Log(a()).Store(to);
        break;
    }
  }
}

template <class V, bool kFull>
void Interpret(const TailSite& site) {
  const int num_ops = static_cast<int>(site.product->tail().ops.size());
  for (int row = 0; row < site.rows; row += kTailRowsAtOnce) {
    const int rest = site.rows - row, rows = rest < kTailRowsAtOnce ? rest : kTailRowsAtOnce;
    for (int i = 0; i < num_ops; ++i) InterpretOp<V, kFull>(site, i, row, rows);
  }
}

// One accumulator, one function, one column.
template <class V, bool kFull, class F>
void OneStore(const TailSite& site, const TailMatch& m, F f) {
  for (int r = 0; r < site.rows; ++r) {
    Edge<V, kFull>::Store(f(V::Load(site.Accumulator(r, m.group[0]))), site.Column(m.out, r),
                          site.lanes);
  }
}

// sigmoid(x) * tanh(y) with one division.
template <class V>
[[gnu::always_inline]] inline V SigmoidTimesTanh(V x, V y) {
  const Quotient<V> t = TanhQuotient(y);
  const V one = V::Broadcast(1.0f);
  return t.numerator / ((one + Exp(V::Broadcast(0.0f) - x)) * t.denominator);
}

template <class V, bool kFull>
void GatedCell(const TailSite& site, const TailMatch& m) {
  using E = Edge<V, kFull>;
  for (int r = 0; r < site.rows; ++r) {
    const V c = E::Load(site.Column(m.in, r), site.lanes);
    const V kept = Sigmoid(V::Load(site.Accumulator(r, m.group[1]))) * c;
    const V added = SigmoidTimesTanh(V::Load(site.Accumulator(r, m.group[0])),
                                     V::Load(site.Accumulator(r, m.group[2])));
    const V cell = kept + added;
    E::Store(cell, site.Column(m.out2, r), site.lanes);
    E::Store(SigmoidTimesTanh(V::Load(site.Accumulator(r, m.group[3])), cell),
             site.Column(m.out, r), site.lanes);
  }
}

template <class V, bool kFull>
void GatedUpdate(const TailSite& site, const TailMatch& m) {
  using E = Edge<V, kFull>;
  for (int r = 0; r < site.rows; ++r) {
    const V h = E::Load(site.Column(m.in, r), site.lanes);
    const V reset = Sigmoid(V::Load(site.Accumulator(r, m.group[0])));
    const V update = Sigmoid(V::Load(site.Accumulator(r, m.group[1])));
    const V n = Tanh(V::Fma(reset, V::Load(site.Accumulator(r, m.group[3])),
                            V::Load(site.Accumulator(r, m.group[2]))));
    E::Store(V::Fma(update, h - n, n), site.Column(m.out, r), site.lanes);
  }
}

template <class V, bool kFull>
void TailOfShape(const TailSite& site, const TailMatch& m) {
  switch (m.shape) {
    case TailShape::kGeneral:
      return Interpret<V, kFull>(site);
    case TailShape::kIdentity:
      return OneStore<V, kFull>(site, m, [](V a) { return a; });
    case TailShape::kSigmoid:
      return OneStore<V, kFull>(site, m, [](V a) { return Sigmoid(a); });
    case TailShape::kTanh:
      return OneStore<V, kFull>(site, m, [](V a) { return Tanh(a); });
    case TailShape::kRelu:
      return OneStore<V, kFull>(site, m, [](V a) { return V::Max(V::Broadcast(0.0f), a); });
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
