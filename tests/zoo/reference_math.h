// Vectors and matrices in double, with just the operations that the equations of the references are
// written in, so that each can be read beside its formula. Nothing of the product is used. Sizes that
// do not fit end the program. Slow and plain on purpose.
//
//   W * x   matrix times vector        a * b   element by element (the formulas' ⊙)
#ifndef CELLBATCH_TESTS_ZOO_REFERENCE_MATH_H_
#define CELLBATCH_TESTS_ZOO_REFERENCE_MATH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cellbatch::zoo {

using Vec = std::vector<double>;

// Row-major, [rows, columns].
struct Mat {
  size_t rows = 0, columns = 0;
  std::vector<double> values;
};

Vec operator*(const Mat& m, const Vec& x);
Mat operator*(const Mat& a, const Mat& b);
Vec operator*(const Vec& a, const Vec& b);
Vec operator+(const Vec& a, const Vec& b);
Mat operator+(const Mat& a, const Mat& b);
Vec operator-(double one, const Vec& a);  // (1 - z)
Vec operator/(const Vec& a, double by);
Vec Sigmoid(const Vec& a);
Vec Tanh(const Vec& a);
Vec Concat(const Vec& a, const Vec& b);  // [a ; b]
Mat Concat(const Mat& a, const Mat& b);  // [a ; b], a above b
Vec Zeros(size_t size);

// Gate `gate` of several stacked in equal parts: rows of a matrix, or elements of a vector.
Mat Gate(const Mat& stacked, size_t gate, size_t gates);
Vec Gate(const Vec& stacked, size_t gate, size_t gates);
// Row `row` of a table: an embedding.
Vec Row(const Mat& table, int32_t row);
size_t ArgMax(const Vec& a);  // the first of the largest

}  // namespace cellbatch::zoo

#endif  // CELLBATCH_TESTS_ZOO_REFERENCE_MATH_H_
