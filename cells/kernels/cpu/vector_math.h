// exp, log, sigmoid, tanh on sixteen floats, for any of the Vec types. Never libm: the same
// polynomials everywhere, so that one machine's answers differ from another's by roundings only.
//
// With e the unit in the last place: exp and tanh are within 2.5 e of the true value everywhere,
// sigmoid within 3 e, log within 2 e (vector_math_test measures it). NaN stays NaN; exp overflows
// to infinity and underflows gradually, or to zero where the thread flushes denormals, as devices do
// (flush_denormals.h). The polynomials are our own minimax fits (README.md): (exp(r)-1-r)/r^2 to 1.4e-8 relative to exp(r)-1 on |r| <= ln(2)/2, and (log(1+f)-f+f^2/2)/f^3 on
// the mantissas of [sqrt(1/2), sqrt(2)).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_VECTOR_MATH_H_
#define CELLBATCH_CELLS_KERNELS_CPU_VECTOR_MATH_H_

namespace cellbatch::kernels {

// exp(x) = 2^n (1 + p): n whole, p = expm1 of the rest, relative to p's own size.
template <class V>
struct SplitExp {
  V n, p;
};

template <class V>
[[gnu::always_inline]] inline SplitExp<V> ReduceExp(V x) {
  const V n = V::RoundToInt(x * V::Broadcast(1.44269504088896341f));
  // ln 2 in two parts; the first has few enough bits that n times it is exact.
  V r = V::Fma(n, V::Broadcast(-0.693145751953125f), x);
  r = V::Fma(n, V::Broadcast(-1.42860682030941723212e-6f), r);
  V q = V::Broadcast(0x1.6d9a84p-10f);
  q = V::Fma(q, r, V::Broadcast(0x1.12290ep-7f));
  q = V::Fma(q, r, V::Broadcast(0x1.555486p-5f));
  q = V::Fma(q, r, V::Broadcast(0x1.5554aep-3f));
  q = V::Fma(q, r, V::Broadcast(0.5f));
  return {n, V::Fma(q, r * r, r)};
}

template <class V>
[[gnu::always_inline]] inline V Exp(V x) {
  // Beyond these the answer is 0 or infinity anyway, and Scale stays in its range.
  x = V::Min(V::Broadcast(89.0f), V::Max(V::Broadcast(-105.0f), x));
  const SplitExp<V> s = ReduceExp(x);
  return V::Scale(V::Broadcast(1.0f) + s.p, s.n);
}

// exp(x) / 2, at least to be added to a half: below -87 it may be 0. Halved, its power of 2 is a float as far as exp's answer
// is, and infinity beyond: one step instead of the two that a gradual underflow takes.
template <class V>
[[gnu::always_inline]] inline V HalfExp(V x) {
  x = V::Min(V::Broadcast(89.6f), V::Max(V::Broadcast(-87.0f), x));
  const SplitExp<V> s = ReduceExp(x);
  return V::HalfPower(s.p, s.n);
}

template <class V>
[[gnu::always_inline]] inline V Sigmoid(V x) {
  const V half = V::Broadcast(0.5f);
  return half / (half + HalfExp(V::Broadcast(0.0f) - x));
}

// tanh(x) = numerator / (expm1 + 2), numerator and expm1 those of 2|x|, the first with x's sign. Apart, so that a product
// with another quotient needs one division.
template <class V>
struct TanhParts {
  V numerator, expm1;
};

template <class V>
[[gnu::always_inline]] inline TanhParts<V> SplitTanh(V x) {
  const V y =
      V::Min(V::Broadcast(20.0f), V::Abs(x) + V::Abs(x));  // tanh is 1 in float from 9.02 on
  const SplitExp<V> s = ReduceExp(y);
  const V power = V::PowerOf2(s.n);
  const V expm1 = V::Fma(power, s.p, power - V::Broadcast(1.0f));
  return {V::CopySign(expm1, x), expm1};
}

template <class V>
[[gnu::always_inline]] inline V Tanh(V x) {
  const TanhParts<V> t = SplitTanh(x);
  return t.numerator / (t.expm1 + V::Broadcast(2.0f));
}

// sigmoid(x) * tanh(y) with one division, of twice the product of their denominators' halves.
template <class V>
[[gnu::always_inline]] inline V SigmoidTimesTanh(V x, V y) {
  const TanhParts<V> t = SplitTanh(y);
  const V twice = V::Fma(t.expm1, V::Broadcast(2.0f), V::Broadcast(4.0f));
  return t.numerator / ((V::Broadcast(0.5f) + HalfExp(V::Broadcast(0.0f) - x)) * twice);
}

template <class V>
[[gnu::always_inline]] inline V Log(V x) {
  V n;
  const V f = V::SplitLog(x, n) - V::Broadcast(1.0f);
  V q = V::Broadcast(0.06915433f);
  for (const float c : {-0.11789837f, 0.11872962f, -0.12384343f, 0.1421866f, -0.16669251f,
                        0.20002227f, -0.24999987f, 0.3333331f}) {
    q = q * f + V::Broadcast(c);
  }
  const V tail = q * f * f * f + n * V::Broadcast(1.42860682030941723212e-6f);
  const V log = n * V::Broadcast(0.693145751953125f) + (f + (tail - V::Broadcast(0.5f) * f * f));
  return V::LogOrLimit(x, log);
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_VECTOR_MATH_H_
