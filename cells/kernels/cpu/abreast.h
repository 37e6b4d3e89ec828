// N registers, of as many rows, computed side by side as if they were one wider: each operation is done to all before the next.
// A function like sigmoid is one long chain of operations, and of chains that follow each other a core sees too few at once to
// keep its multipliers busy, however independent the rows are. Bits are those of each register alone. For any Vec, which says
// how many its registers hold (V::kAbreast, measured: README.md).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_ABREAST_H_
#define CELLBATCH_CELLS_KERNELS_CPU_ABREAST_H_

#include <utility>

namespace cellbatch::kernels {

template <class V, int N>
struct Abreast {
  static constexpr int kRows = N;

  V v[N];

  // Register i is of(i).
  template <class Of>
  [[gnu::always_inline]] static inline Abreast Make(Of of) {
    return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      return Abreast{{of(I)...}};
    }
    (std::make_integer_sequence<int, N>());
  }
  // f(i, register i).
  template <class F>
  [[gnu::always_inline]] inline void Each(F f) const {
    [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      (f(I, v[I]), ...);
    }
    (std::make_integer_sequence<int, N>());
  }

  // What vector_math.h asks of a V, but for logarithms (which gain nothing, nor does exp alone).
  static Abreast Broadcast(float x) {
    return Make([x](int) { return V::Broadcast(x); });
  }
  friend Abreast operator+(Abreast a, Abreast b) {
    return Map([](V x, V y) { return x + y; }, a, b);
  }
  friend Abreast operator-(Abreast a, Abreast b) {
    return Map([](V x, V y) { return x - y; }, a, b);
  }
  friend Abreast operator*(Abreast a, Abreast b) {
    return Map([](V x, V y) { return x * y; }, a, b);
  }
  friend Abreast operator/(Abreast a, Abreast b) {
    return Map([](V x, V y) { return x / y; }, a, b);
  }
  static Abreast Fma(Abreast a, Abreast b, Abreast c) {
    return Map([](V x, V y, V z) { return V::Fma(x, y, z); }, a, b, c);
  }
  static Abreast Max(Abreast a, Abreast b) {
    return Map([](V x, V y) { return V::Max(x, y); }, a, b);
  }
  static Abreast Min(Abreast a, Abreast b) {
    return Map([](V x, V y) { return V::Min(x, y); }, a, b);
  }
  static Abreast RoundToInt(Abreast a) {
    return Map([](V x) { return V::RoundToInt(x); }, a);
  }
  static Abreast Scale(Abreast a, Abreast n) {
    return Map([](V x, V y) { return V::Scale(x, y); }, a, n);
  }
  static Abreast PowerOf2(Abreast n) {
    return Map([](V x) { return V::PowerOf2(x); }, n);
  }
  static Abreast HalfPower(Abreast p, Abreast n) {
    return Map([](V x, V y) { return V::HalfPower(x, y); }, p, n);
  }
  static Abreast Abs(Abreast a) {
    return Map([](V x) { return V::Abs(x); }, a);
  }
  static Abreast CopySign(Abreast magnitude, Abreast sign) {
    return Map([](V x, V y) { return V::CopySign(x, y); }, magnitude, sign);
  }

 private:
  template <class F, class... A>
  [[gnu::always_inline]] static inline Abreast Map(F f, const A&... a) {
    return Make([&](int i) __attribute__((always_inline)) { return f(a.v[i]...); });
  }
};

// f(r, rows): of all rows from the first on, where `rows` is an Abreast that says only how many from r on are meant: as many
// as registers hold, and then one at a time.
template <class V, class F>
[[gnu::always_inline]] inline void EachRowAbreast(int rows, F f) {
  int r = 0;
  for (; r + V::kAbreast <= rows; r += V::kAbreast) f(r, Abreast<V, V::kAbreast>());
  for (; r < rows; ++r) f(r, Abreast<V, 1>());
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_ABREAST_H_
