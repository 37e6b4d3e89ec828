// What the eight tile registers hold while two row blocks, or one, meet up to four columns (tiled_inl.h has the picture):
// 0 to 3 sums, 4 and 5 the row blocks' inputs, 6 and 7 weights. Plain value.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_TILE_SHAPES_H_
#define CELLBATCH_CELLS_KERNELS_CPU_TILE_SHAPES_H_

namespace cellbatch::kernels {
namespace {  // of each file that includes it: nothing built with special flags may be linked elsewhere

constexpr int kTiles = 8, kTileRows = 16, kTileWords = 16;
constexpr int kRowTile = 4, kWeightTile = 6;

struct TileShapes {
  int rows = 0;        // of the first row block, or of the only one
  int other_rows = 0;  // of the second one; of an only one the same
  int pairs = 0;       // of bf16 that inputs and weights have in K

  int Rows(int tile) const {
    if (tile >= kWeightTile) return pairs;
    const bool other = tile == 2 || tile == 3 || tile == kRowTile + 1;
    return other ? other_rows : rows;
  }
  int RowBytes(int tile) const {
    const bool inputs = tile == kRowTile || tile == kRowTile + 1;
    return 4 * (inputs ? pairs : kTileWords);
  }
  bool operator==(const TileShapes&) const = default;
};

}  // namespace
}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_TILE_SHAPES_H_
