// How kernels reach rows: by number, through a list, while loading or storing. Nothing is gathered
// into a copy first.
//
//   plain rows      row r = base + stride * rows[r]
//   looked-up rows  row r = base + stride * tokens[token_stride * rows[r]]     (base is then an
//   embedding table)
//
// Plain values that own nothing; the caller keeps the memory alive and the indices in range for the
// call (nothing is checked here: a token beyond the table was refused when the request came in). A
// null `rows` means row r itself. Strides count elements. A stride that is a multiple of 4 KiB puts
// the rows of one register block into one cache set: pad such strides by 16 floats (PaddedStride).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_ROWS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_ROWS_H_

#include <cstdint>

namespace cellbatch::kernels {

struct RowSource {
  const float* base = nullptr;
  int64_t stride = 0;
  const int32_t* rows = nullptr;
  const int32_t* tokens = nullptr;
  int64_t token_stride = 1;

  int64_t Index(int64_t r) const {
    const int64_t row = rows != nullptr ? rows[r] : r;
    return tokens != nullptr ? tokens[token_stride * row] : row;
  }
  const float* Row(int64_t r) const { return base + stride * Index(r); }
};

// A column that a tail reads or writes (or both, at different rows: two columns then).
struct RowColumn {
  float* base = nullptr;
  int64_t stride = 0;
  const int32_t* rows = nullptr;

  float* Row(int64_t r) const { return base + stride * (rows != nullptr ? rows[r] : r); }
};

struct Int32Column {
  int32_t* base = nullptr;
  int64_t stride = 0;
  const int32_t* rows = nullptr;

  int32_t* Row(int64_t r) const { return base + stride * (rows != nullptr ? rows[r] : r); }
};

// The stride to give a table of `width` floats a row: whole cache lines, never a multiple of 4 KiB.
inline int64_t PaddedStride(int64_t width) {
  const int64_t lines = (width + 15) / 16;
  return (lines % 64 == 0 ? lines + 1 : lines) * 16;
}

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_ROWS_H_
