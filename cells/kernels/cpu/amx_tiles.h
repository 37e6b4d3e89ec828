// The CPU's tile registers, eight of 16 rows x 64 bytes (AMX). Only where the CPU has them and the system lets this process
// use them (cells/device/cpu/tile_permission.h); in an unnamed namespace, as vec_avx512.h is.
//
// Instructions are written out: GCC 12's intrinsics neither say that they read and write memory nor take a register's number
// from a template. Registers are the thread's: an object that shaped them gives them back when it ends, or every switch of
// threads would save 8 KiB.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_AMX_TILES_H_
#define CELLBATCH_CELLS_KERNELS_CPU_AMX_TILES_H_

#include <cstdint>

#include "cells/kernels/cpu/tile_shapes.h"

namespace cellbatch::kernels {
namespace {

class AmxTiles {
 public:
  AmxTiles() = default;
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;
  ~AmxTiles() {
    if (!(shapes_ == TileShapes())) __asm__ volatile("tilerelease" ::: "memory");
  }

  // Empties all registers, unless they have these shapes already.
  void Shape(const TileShapes& shapes) {
    if (shapes == shapes_) return;
    shapes_ = shapes;
    struct {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    static_assert(sizeof(config) == 64);
    for (int tile = 0; tile < kTiles; ++tile) {
      config.rows[tile] = static_cast<uint8_t>(shapes.Rows(tile));
      config.row_bytes[tile] = static_cast<uint16_t>(shapes.RowBytes(tile));
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  int Rows(int tile) const { return shapes_.Rows(tile); }

  template <int kTile>
  void Load(const float* from, int64_t row_bytes) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(row_bytes), "i"(kTile)
                     : "memory");
  }
  template <int kTile>
  void Store(float* to, int64_t row_bytes) const {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row_bytes), "i"(kTile)
                     : "memory");
  }
  template <int kSums, int kRows, int kWeights>
  void MultiplyAdd() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kRows),
                     "i"(kWeights));
  }

 private:
  TileShapes shapes_;
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_AMX_TILES_H_
