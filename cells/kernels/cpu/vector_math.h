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

template <class V>
[[gnu::always_inline]] inline V Sigmoid(V x) {
  const V one = V::Broadcast(1.0f);
  return one / (one + Exp(V::Broadcast(0.0f) - x));
}

// tanh(x) = numerator / denominator, both positive, for |x|: expm1(2|x|) and that plus 2. Apart, so
// that a product with another quotient needs one division.
template <class V>
struct Quotient {
  V numerator, denominator;
};

template <class V>
[[gnu::always_inline]] inline Quotient<V> TanhQuotient(V x) {
  const V y =
      V::Min(V::Broadcast(20.0f), V::Abs(x) + V::Abs(x));  // tanh is 1 in float from 9.02 on
  const SplitExp<V> s = ReduceExp(y);
  const V power = V::Scale(V::Broadcast(1.0f), s.n);
  const V expm1 = V::Fma(power, s.p, power - V::Broadcast(1.0f));
  return {V::CopySign(expm1, x), expm1 + V::Broadcast(2.0f)};
}

template <class V>
[[gnu::always_inline]] inline V Tanh(V x) {
  const Quotient<V> q = TanhQuotient(x);
  return q.numerator / q.denominator;
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
