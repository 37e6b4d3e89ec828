// Whether tile registers do what products go by (tiled_inl.h): each kind of register, whole and in part, loaded from rows
// that lie apart, over whole numbers, which every order of sums adds up alike. Asked of a CPU's once, before they are used.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILE_TRIAL_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILE_TRIAL_H_

#include <bit>
#include <cstdint>

#include "cells/kernels/cpu/tile_shapes.h"

namespace cellbatch::kernels {
namespace {

template <class Tiles>
class TileTrial {
 public:
  bool IsRight() {
    return Agrees({kTileRows, kTileRows, kTileWords}) && Agrees({kTileRows, 1, kTileWords}) &&
           Agrees({3, 13, kTileWords}) && Agrees({16, 5, 7});
  }

 private:
  // Words from one row of inputs, weights and sums to the next.
  static constexpr int kInputs = 23, kWeights = 48, kSums = 37;

  static int Whole(int i) { return i * 37 % 23 - 11; }
  static float Pair(int first, int second) {  // the first above
    const auto upper = [](int whole) {
      return std::bit_cast<uint32_t>(static_cast<float>(whole)) >> 16;
    };
    return std::bit_cast<float>(upper(first) << 16 | upper(second));
  }
  static int Input(int row, int k) { return Whole(row * 5 + k * 3 + 1); }
  static int Weight(int k, int unit) { return Whole(k * 7 + unit * 11 + 2); }

  bool Agrees(const TileShapes& shapes) {
    for (int r = 0; r < kTileRows; ++r) {
      for (int w = 0; w < kTileWords; ++w) {
        inputs_[r * kInputs + w] = Pair(Input(r, 2 * w), Input(r, 2 * w + 1));
        weights_[r * kWeights + w] = Pair(Weight(2 * r, w), Weight(2 * r + 1, w));
      }
    }
    return Meets<0, 4, 6>(shapes) && Meets<1, 4, 7>(shapes) && Meets<2, 5, 6>(shapes) &&
           Meets<3, 5, 7>(shapes);
  }

  // Twice added to sums that are there, and no other float written.
  template <int kSum, int kInput, int kWeight>
  bool Meets(const TileShapes& shapes) {
    for (int i = 0; i < kTileRows * kSums; ++i) sums_[i] = static_cast<float>(Whole(i));
    {
      Tiles tiles;
      tiles.Shape(shapes);
      tiles.template Load<kSum>(sums_, kSums * 4);
      tiles.template Load<kInput>(inputs_, kInputs * 4);
      tiles.template Load<kWeight>(weights_, kWeights * 4);
      tiles.template MultiplyAdd<kSum, kInput, kWeight>();
      tiles.template MultiplyAdd<kSum, kInput, kWeight>();
      tiles.template Store<kSum>(sums_, kSums * 4);
    }
    for (int i = 0; i < kTileRows * kSums; ++i) {
      const int row = i / kSums, unit = i % kSums;
      int expected = Whole(i);
      const bool written = row < shapes.Rows(kSum) && unit < kTileWords;
      for (int k = 0; written && k < 2 * shapes.pairs; ++k) {
        expected += 2 * Input(row, k) * Weight(k, unit);
      }
      if (sums_[i] != static_cast<float>(expected)) return false;
    }
    return true;
  }

  float inputs_[kTileRows * kInputs], weights_[kTileRows * kWeights], sums_[kTileRows * kSums];
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILE_TRIAL_H_
