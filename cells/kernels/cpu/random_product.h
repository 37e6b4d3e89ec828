// For tests: random products with everything they need to run, and the obvious double-precision
// reference.
#ifndef CELLBATCH_CELLS_KERNELS_CPU_RANDOM_PRODUCT_H_
#define CELLBATCH_CELLS_KERNELS_CPU_RANDOM_PRODUCT_H_

#include <cstdint>
#include <random>
#include <vector>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/product.h"

namespace cellbatch::kernels {

using Random = std::mt19937_64;

int RandomInt(Random& random, int least, int most);
std::vector<float> RandomFloats(Random& random, int64_t count, float scale = 1.0f);

// A product and the numbers behind its spec.
struct RandomProduct {
  RandomProduct(Random& random, int units, int groups, std::vector<int> depths, TailProgram tail,
                double share_of_terms = 1.0);

  // Row r's accumulators in double, [groups][units], and then what its tail stores, by column.
  // inputs[s] and columns[c] are this row's vectors.
  std::vector<std::vector<double>> Reference(const std::vector<const float*>& inputs,
                                             const std::vector<const float*>& columns) const;
  std::vector<double> Accumulators(const std::vector<const float*>& inputs) const;
  // The same of many rows: what the weights mean is computed once.
  std::vector<std::vector<double>> Accumulators(
      const std::vector<std::vector<const float*>>& rows) const;
  // What the spec's precision makes of an input, and of a unit's weights.
  double Meant(float input) const;
  std::vector<double> MeantWeights(size_t segment, int group, int unit) const;

  ProductSpec spec;
  std::vector<std::vector<float>> memory;  // what spec points into
};

// A table of rows with guards between them, and a random list of distinct rows of it.
struct RandomRows {
  RandomRows(Random& random, int width, int table_rows, int num_rows);

  // What kernels read of it: the rows as they are, or as pairs.
  RowSource source() const { return {base(), stride, rows.data()}; }
  const float* base() const { return pairs.empty() ? data.data() : pairs.data(); }
  RowColumn column() { return {data.data(), stride, rows.data()}; }
  const float* Row(int r) const { return data.data() + stride * rows[r]; }
  // From now on source() is of every row's pairs of bf16, of the upper halves of `data` as it is now.
  void MakePairs();
  // The same of every number as the sum of two of bf16: pairs of all upper parts, then of all lower ones.
  void MakeSplit();
  // Whether everything but the listed rows' first `width` floats is as it was made.
  bool OthersUntouched() const;

  int width;
  int64_t stride;
  std::vector<float> data, before, pairs;
  std::vector<int32_t> rows;
};

// Two numbers that have no lower halves in one word, as kernels read them that multiply pairs.
float PairOfBf16(float first, float second);

// Rows to be read by products of `precision`: those of kBf16 rounded, by the book, followed by a zero if their width is odd,
// and read as pairs by kernels that multiply those; those of kFp32Split read as two parts.
RandomRows RandomInputs(Random& random, const CpuKernels& kernels, Precision precision, int width,
                        int table_rows, int num_rows);

inline constexpr Precision kPrecisions[] = {Precision::kFp32, Precision::kW8, Precision::kBf16};

// Tails by name of their arithmetic, and a random well-formed one.
TailProgram IdentityTail();
// Stores every accumulator in a column of its own: nothing that a sum gets wrong is hidden by what follows.
TailProgram StoreAllTail(int groups);
TailProgram UnaryTail(TailOpKind kind);
TailProgram GatedCellTail();    // columns: c in, c out, h out
TailProgram GatedUpdateTail();  // columns: h in, h out
// (a - mean) scale gain + bias; columns: mean and scale, one number a row, and out.
TailProgram NormalisingTail();
TailProgram NormalisedSumTail();  // the same, and the second accumulator added
// (a - mean) c; columns: mean, one number a row, c, out, and one that c is copied to.
TailProgram ScaledDifferenceTail();
// The same and one more store, of a constant: no shape that is known.
TailProgram WithAnotherStore(const TailProgram& tail);
TailProgram RandomTail(Random& random, int groups, int columns, int parameters);
// The same tail of no product: what were accumulators are columns behind its own.
TailProgram SumsAsColumns(TailProgram tail, int groups);

// What an operation makes of its operands and, if it reads one, the number `read`.
double Compute(const TailOp& op, double a, double b, double read = 0.0);

// Distance in units of design.md (Numbers): at most 1 is within the bound of |y - y64| <= 1e-5
// max(1, |y64|).
double Excess(const std::vector<double>& expected, const float* got);

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_RANDOM_PRODUCT_H_
