// For tests: tile registers in plain arithmetic, as the manual says what each instruction does (Intel's Software Developer's
// Manual, TDPBF16PS), with what a CPU would fault at ending the process. What is read of memory is what the instruction
// reads, so AddressSanitizer sees what would be read beyond.
//
// `Broken` says what is done wrong on purpose: bool Broken::Skips(sums) of each multiplication.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_H_
#define CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_H_

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cells/check.h"
#include "cells/kernels/cpu/tile_shapes.h"

namespace cellbatch::kernels {
namespace {

struct NotBroken {
  static bool Skips(int) { return false; }
};

template <class Broken = NotBroken>
class PlainTiles {
 public:
  void Shape(const TileShapes& shapes) {
    Check(shapes.rows > 0 && shapes.rows <= kTileRows, "rows of a tile");
    Check(shapes.other_rows > 0 && shapes.other_rows <= kTileRows, "rows of another tile");
    Check(shapes.pairs > 0 && shapes.pairs <= kTileWords, "pairs of a tile");
    if (shapes == shapes_) return;
    shapes_ = shapes;
    std::memset(tiles_, 0, sizeof(tiles_));
  }
  int Rows(int tile) const { return shapes_.Rows(tile); }

  template <int kTile>
  void Load(const float* from, int64_t row_bytes) {
    static_assert(kTile < kTiles);
    Check(shapes_.rows > 0, "a tile is loaded that has no shape");
    std::memset(tiles_[kTile], 0, sizeof(tiles_[kTile]));
    for (int r = 0; r < shapes_.Rows(kTile); ++r) {
      std::memcpy(tiles_[kTile][r], reinterpret_cast<const char*>(from) + r * row_bytes,
                  static_cast<size_t>(shapes_.RowBytes(kTile)));
    }
  }
  template <int kTile>
  void Store(float* to, int64_t row_bytes) const {
    static_assert(kTile < kTiles);
    for (int r = 0; r < shapes_.Rows(kTile); ++r) {
      std::memcpy(reinterpret_cast<char*>(to) + r * row_bytes, tiles_[kTile][r],
                  static_cast<size_t>(shapes_.RowBytes(kTile)));
    }
  }
  template <int kSums, int kRows, int kWeights>
  void MultiplyAdd() {
    static_assert(kSums < kRowTile && kRows >= kRowTile && kRows < kWeightTile);
    static_assert(kWeights >= kWeightTile && kWeights < kTiles);
    Check(shapes_.Rows(kSums) == shapes_.Rows(kRows), "tiles that do not fit each other");
    if (Broken::Skips(kSums)) return;
    for (int m = 0; m < shapes_.Rows(kSums); ++m) {
      float lower[kTileWords] = {}, upper[kTileWords] = {};
      for (int k = 0; k < shapes_.pairs; ++k) {
        const uint32_t x = tiles_[kRows][m][k];
        for (int n = 0; n < kTileWords; ++n) {
          const uint32_t w = tiles_[kWeights][k][n];
          lower[n] = std::fma(Number(x << 16), Number(w << 16), lower[n]);
          upper[n] = std::fma(Number(x & kUpper), Number(w & kUpper), upper[n]);
        }
      }
      for (int n = 0; n < kTileWords; ++n) {
        const float sum = Number(tiles_[kSums][m][n]) + (lower[n] + upper[n]);
        std::memcpy(&tiles_[kSums][m][n], &sum, sizeof(sum));
      }
    }
  }

 private:
  static constexpr uint32_t kUpper = 0xffff0000u;
  static float Number(uint32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
  }

  TileShapes shapes_;
  uint32_t tiles_[kTiles][kTileRows][kTileWords] = {};
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_PLAIN_TILES_H_
