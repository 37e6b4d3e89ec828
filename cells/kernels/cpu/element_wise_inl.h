// One element-wise operator over memory, for one Vec: what a system without fusion runs between its products, with the same
// functions as tails use (vector_math.h). Included only by the one file of each instruction set.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_ELEMENT_WISE_INL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_ELEMENT_WISE_INL_H_

#include <cstdint>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/tail_inl.h"
#include "cells/kernels/cpu/vector_math.h"

namespace cellbatch::kernels {

// Sixteen elements of row r, from element u on.
template <class V, bool kFull>
V LoadElements(const ElementWiseArgs::Source& from, int64_t r, int64_t u, int lanes) {
  const float* const row = from.base + r * from.stride;
  return from.is_one ? V::Broadcast(*row) : Edge<V, kFull>::Load(row + u, lanes);
}

// f(a, b) of the elements that the operator is about; `b` is called only by who has a second source. (A copy of the arguments:
// as far as a compiler knows, a store may change what a reference leads to.)
template <class V, class F>
void EachElement(const ElementWiseArgs args, F f) {
  for (int64_t r = 0; r < args.rows; ++r) {
    float* const out = args.out + r * args.out_stride;
    int64_t u = 0;
    for (; u + kLanes <= args.width; u += kLanes) {
      f([&] { return LoadElements<V, true>(args.a, r, u, kLanes); },
        [&] {
          return LoadElements<V, true>(args.b, r, u, kLanes);
        }).Store(out + u);
    }
    if (u == args.width) continue;
    const int lanes = static_cast<int>(args.width - u);
    f([&] { return LoadElements<V, false>(args.a, r, u, lanes); },
      [&] {
        return LoadElements<V, false>(args.b, r, u, lanes);
      }).StorePart(out + u, lanes);
  }
}

template <class V>
void ElementWise(const ElementWiseArgs& args) {
  switch (args.op) {
    case TailOpKind::kAdd:
      return EachElement<V>(args, [](auto a, auto b) { return a() + b(); });
    case TailOpKind::kSub:
      return EachElement<V>(args, [](auto a, auto b) { return a() - b(); });
    case TailOpKind::kMul:
      return EachElement<V>(args, [](auto a, auto b) { return a() * b(); });
    case TailOpKind::kDiv:
      return EachElement<V>(args, [](auto a, auto b) { return a() / b(); });
    case TailOpKind::kMax:
      return EachElement<V>(args, [](auto a, auto b) { return V::Max(a(), b()); });
    case TailOpKind::kSigmoid:
      return EachElement<V>(args, [](auto a, auto) { return Sigmoid(a()); });
    case TailOpKind::kTanh:
      return EachElement<V>(args, [](auto a, auto) { return Tanh(a()); });
    case TailOpKind::kRelu:
      return EachElement<V>(args, [](auto a, auto) { return V::Max(V::Broadcast(0.0f), a()); });
    case TailOpKind::kExp:
      return EachElement<V>(args, [](auto a, auto) { return Exp(a()); });
    case TailOpKind::kLog:
      return EachElement<V>(args, [](auto a, auto) { return Log(a()); });
    case TailOpKind::kAccumulator:
    case TailOpKind::kColumn:
    case TailOpKind::kScalar:
    case TailOpKind::kParameter:
    case TailOpKind::kConstant:
    case TailOpKind::kStore:
      break;  // compute nothing
  }
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_ELEMENT_WISE_INL_H_
