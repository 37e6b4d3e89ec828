// Element types and dimensions of what cells compute on: scalars, vectors and matrices.
// Plain values, any thread, free.
#ifndef CELLBATCH_CELLS_SHAPE_H_
#define CELLBATCH_CELLS_SHAPE_H_

#include <cstdint>
#include <string>

namespace cellbatch {

enum class ElementType : uint8_t { kFp32, kBf16, kInt32 };

constexpr int64_t SizeInBytes(ElementType type) { return type == ElementType::kBf16 ? 2 : 4; }

constexpr const char* Name(ElementType type) {
  return type == ElementType::kFp32 ? "FP32" : type == ElementType::kBf16 ? "BF16" : "INT32";
}

// A vector of `cols` elements (rows == 1) or a matrix [rows, cols], row-major. A scalar is [1].
struct Shape {
  int32_t rows = 1;
  int32_t cols = 1;

  static constexpr Shape Vector(int32_t n) { return {1, n}; }
  static constexpr Shape Matrix(int32_t rows, int32_t cols) { return {rows, cols}; }
  constexpr int64_t size() const { return int64_t{rows} * cols; }
  constexpr bool is_vector() const { return rows == 1; }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;
  std::string ToString() const {
    return rows == 1 ? "[" + std::to_string(cols) + "]"
                     : "[" + std::to_string(rows) + ", " + std::to_string(cols) + "]";
  }
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_SHAPE_H_
