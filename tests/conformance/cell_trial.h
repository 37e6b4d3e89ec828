// One cell on rows of its own: run by the CPU device's code, and handed to whoever knows what should come out.
//
//   CellTrial trial(definition, seed, kernels);
//   trial.Run(33);                          33 nodes in one batch; each reads rows of its own, sums any number
//   trial.Left(5)                           what node 5 left, bit by bit
//   trial.Inputs(5)                         what it read, sums summed, exactly
#ifndef CELLBATCH_TESTS_CONFORMANCE_CELL_TRIAL_H_
#define CELLBATCH_TESTS_CONFORMANCE_CELL_TRIAL_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cells/cell_type.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/reference/interpreter.h"

namespace cellbatch::conformance {

class CellTrial {
 public:
  // Columns of INT32 hold numbers below `words`. Columns named in `positive` ("before.n") hold numbers above 0.1.
  CellTrial(CellDefinition definition, uint64_t seed, const kernels::CpuKernels& kernels,
            int32_t words = 1, const std::set<std::string>& positive = {});

  void Run(int32_t nodes);
  const CellType& type() const { return type_; }
  std::vector<RowValues> Inputs(int32_t node) const;
  // By column; the bits, INT32 or not.
  std::vector<std::vector<float>> Left(int32_t node) const;
  // The same as numbers.
  RowValues LeftValues(int32_t node) const;

 private:
  static constexpr int32_t kRows = 50;  // of each table

  ColumnArray Make(const Column& column, int32_t rows);
  void Fill(const ColumnArray& column, uint64_t seed, int32_t words, bool positive) const;
  std::vector<Row> RowsOf(size_t input, int32_t node) const;

  CellType type_;
  std::unique_ptr<PackedCell> packed_;
  std::vector<kernels::PackedMemory> memory_;
  CellColumns columns_;
};

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_CELL_TRIAL_H_
