#include "tests/zoo/reference_math.h"

#include <algorithm>
#include <cmath>

#include "cells/check.h"

namespace cellbatch::zoo {
namespace {

void SameSize(size_t a, size_t b) { Check(a == b, "a reference joins what differs in size"); }

template <typename Function>
Vec Each(const Vec& a, Function f) {
  Vec made(a.size());
  std::transform(a.begin(), a.end(), made.begin(), f);
  return made;
}

template <typename Function>
Vec Each(const Vec& a, const Vec& b, Function f) {
  SameSize(a.size(), b.size());
  Vec made(a.size());
  std::transform(a.begin(), a.end(), b.begin(), made.begin(), f);
  return made;
}

}  // namespace

Vec operator*(const Mat& m, const Vec& x) {
  SameSize(m.columns, x.size());
  Vec y(m.rows);
  for (size_t r = 0; r < m.rows; ++r) {
    for (size_t c = 0; c < m.columns; ++c) y[r] += m.values[r * m.columns + c] * x[c];
  }
  return y;
}

Mat operator*(const Mat& a, const Mat& b) {
  SameSize(a.columns, b.rows);
  Mat y{a.rows, b.columns, Vec(a.rows * b.columns)};
  for (size_t r = 0; r < a.rows; ++r) {
    for (size_t k = 0; k < a.columns; ++k) {
      for (size_t c = 0; c < b.columns; ++c) {
        y.values[r * b.columns + c] += a.values[r * a.columns + k] * b.values[k * b.columns + c];
      }
    }
  }
  return y;
}

Vec operator*(const Vec& a, const Vec& b) {
  return Each(a, b, [](double x, double y) { return x * y; });
}

Vec operator+(const Vec& a, const Vec& b) {
  return Each(a, b, [](double x, double y) { return x + y; });
}

Mat operator+(const Mat& a, const Mat& b) {
  SameSize(a.rows, b.rows);
  SameSize(a.columns, b.columns);
  return {a.rows, a.columns, a.values + b.values};
}

Vec operator-(double one, const Vec& a) {
  return Each(a, [one](double x) { return one - x; });
}

Vec operator/(const Vec& a, double by) {
  return Each(a, [by](double x) { return x / by; });
}

Vec Sigmoid(const Vec& a) {
  return Each(a, [](double x) { return 1 / (1 + std::exp(-x)); });
}

Vec Tanh(const Vec& a) {
  return Each(a, [](double x) { return std::tanh(x); });
}

Vec Concat(const Vec& a, const Vec& b) {
  Vec made = a;
  made.insert(made.end(), b.begin(), b.end());
  return made;
}

Mat Concat(const Mat& a, const Mat& b) {
  SameSize(a.columns, b.columns);
  return {a.rows + b.rows, a.columns, Concat(a.values, b.values)};
}

Vec Zeros(size_t size) { return Vec(size); }

Mat Gate(const Mat& stacked, size_t gate, size_t gates) {
  SameSize(stacked.rows % gates, 0);
  const size_t rows = stacked.rows / gates;
  return {rows, stacked.columns, Gate(stacked.values, gate, gates)};
}

Vec Gate(const Vec& stacked, size_t gate, size_t gates) {
  SameSize(stacked.size() % gates, 0);
  const size_t size = stacked.size() / gates;
  const auto first = stacked.begin() + static_cast<std::ptrdiff_t>(gate * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

Vec Row(const Mat& table, int32_t row) {
  Check(row >= 0 && static_cast<size_t>(row) < table.rows, "a token beyond the table");
  const auto first =
      table.values.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(row) * table.columns);
  return {first, first + static_cast<std::ptrdiff_t>(table.columns)};
}

size_t ArgMax(const Vec& a) {
  return static_cast<size_t>(std::max_element(a.begin(), a.end()) - a.begin());
}

}  // namespace cellbatch::zoo
