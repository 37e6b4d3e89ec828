// The CPU kernels behind plain functions, one table per instruction set, chosen once by what the
// CPU can do.
//
//   const CpuKernels& kernels = BestKernels(DetectCpuFeatures());
//   kernels.run_product(product, args, 0, product.num_panels(), &scratch);
//
// Every function is pure computation on the caller's memory: no threads, no allocation, no locks,
// no state. Several threads may run different panels of one product at once, each with its own
// scratch. For each row the bits of the result depend on that row, the weights and the table
// chosen: not on num_rows, the row's place or the panel split.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_H_
#define CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_H_

#include <cstdint>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/rows.h"
#include "cells/program/tail_program.h"

namespace cellbatch::kernels {

// A product of one row's values: y [rows, cols], packed, from x [rows, depth] and w. Strides count floats.
struct MatMulArgs {
  const float* x = nullptr;
  int64_t x_stride = 0;  // between rows of x
  const float* w = nullptr;
  int64_t w_stride = 0;  // between rows of w, which has `cols` of them, or (by columns) `depth`
  int32_t rows = 0, depth = 0, cols = 0;
  float* y = nullptr;
};

// One operator, kAdd to kLog, over `rows` rows of `width` elements that lie `stride` apart: rows that touch are one long
// row. A source of stride 0 is the same for every row, and one number where `is_one`.
struct ElementWiseArgs {
  struct Source {
    const float* base = nullptr;
    int64_t stride = 0;
    bool is_one = false;
  };
  TailOpKind op = TailOpKind::kAdd;
  Source a, b;  // operators of one value read `a`
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t rows = 0, width = 0;
};

struct CpuKernels {
  const char* name;  // "avx512_amx", "avx512_bf16", "avx512", "avx2", "portable"

  Packing
      packing;  // of the products that it runs: a PackedProduct of another order ends the process

  // What its tiles make of a product, for those who tune and test: no result depends on it.
  int32_t block_of_k;          // a segment deeper than this is computed in several passes
  uint32_t (*ways)(int rows);  // there are for full panels; bit i: StreamWay i

  // How rows lie that round_to_bf16 leaves and products of Precision::kBf16 read. Either way they have the same bits, but
  // those of tiles (bf16_in_tiles), which read pairs and add up 32 of K before they add that to a sum (tiled_inl.h).
  bool bf16_in_pairs;
  bool bf16_in_tiles;
  // Multiply-adds of bf16 in the time of one of fp32 where weights are near, about: whether a step is worth splitting.
  int32_t bf16_rate;

  // Panels [first_panel, last_panel) of a product, tail included. A product without groups and
  // segments is an element-wise program. Cost: about 2 * rows * weights flops, and one pass over
  // the panels' weights a chunk of rows.
  void (*run_product)(const PackedProduct& product, const ProductArgs& args, int first_panel,
                      int last_panel, ProductScratch* scratch);

  // The same without the tail: row r's accumulators to out + r * out_stride (64-byte aligned, at
  // least accumulator_width() floats a row). What `initial` of another product may start from.
  void (*run_accumulators)(const PackedProduct& product, const ProductArgs& args, int first_panel,
                           int last_panel, ProductScratch* scratch, float* out, int64_t out_stride);

  // Row r of out = sum of in's rows offsets[r] .. offsets[r + 1], in that order; none: zero. `in`
  // counts the links.
  void (*sum_rows)(const RowSource& in, const int32_t* offsets, int32_t width, int32_t num_rows,
                   const RowColumn& out);

  // The first element of out's row r = the sum of in's row r / `divisor`: sixteen chains in double, each of every sixteenth
  // element, of whole 256 that follow each other sixteen at once, of whole 64 four, which are added up as floats, two and two.
  // So the order depends on the width alone. Sixteen that together are no float are infinite.
  void (*sum_elements)(const RowSource& in, int32_t width, double divisor, int32_t num_rows,
                       const RowColumn& out);

  // The same of the squares of what is above the first element of `less`'s row r (base null: above zero): (x - less)^2,
  // both operations rounded to float, bit by bit what two steps of their own and sum_elements would leave.
  void (*sum_squares)(const RowSource& in, const RowSource& less, int32_t width, double divisor,
                      int32_t num_rows, const RowColumn& out);

  // Row r of out = the first element of in's row r, `width` times.
  void (*broadcast)(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out);

  // Row r of out = index of the first largest of in's row r (NaN is never larger; all NaN: 0).
  // width >= 1.
  void (*arg_max)(const RowSource& in, int32_t width, int32_t num_rows, const Int32Column& out);

  // y[m][n] = sum over k of x[m][k] w[n][k], and of x[m][k] w[k][n]. Nothing overlaps.
  void (*mat_mul_by_rows)(const MatMulArgs& args);
  void (*mat_mul_by_columns)(const MatMulArgs& args);

  // The functions of tails, alone: the same bits as a tail of that one operation. `out` may be a source, else apart.
  void (*element_wise)(const ElementWiseArgs& args);

  // Row r of out = row r of in rounded to bf16 (to nearest, ties to even; NaN stays NaN), and one zero more if `width` is
  // odd: what a product of Precision::kBf16 reads. As floats, or in half the room, two in a word, the first above.
  void (*round_to_bf16)(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out);

  // Row r of out = row r of in as the sum of two of bf16, pairs of the larger parts and then pairs of what is left: what a
  // product of Precision::kFp32Split reads. Null: this table runs none.
  void (*split_to_bf16)(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out);

  // Row r of out = row r of in: a table lookup when `in` has tokens. Rows do not overlap.
  void (*copy_rows)(const RowSource& in, int32_t width, int32_t num_rows, const RowColumn& out);
};

// The fastest table this CPU can run.
const CpuKernels& BestKernels(const CpuFeatures& cpu);

// All of them, fastest first: for tests and benchmarks.
std::vector<const CpuKernels*> RunnableKernels(const CpuFeatures& cpu);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_KERNEL_TABLE_H_
