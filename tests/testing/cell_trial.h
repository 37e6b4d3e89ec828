// One cell on rows of its own: run by the CPU device's code, and handed to whoever knows what should come out.
//
//   CellTrial trial(definition, seed, kernels);
//   trial.Run(33);                          33 nodes in one batch; each reads rows of its own, sums any number
//   trial.Left(5)                           what node 5 left, bit by bit
//   trial.Inputs(5)                         what it read, sums summed, exactly
//   EXPECT_EQ(trial.Disagreement(5), "");   with the interpreter
#ifndef CELLBATCH_TESTS_TESTING_CELL_TRIAL_H_
#define CELLBATCH_TESTS_TESTING_CELL_TRIAL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cells/batched/batched_cell.h"
#include "cells/cell_type.h"
#include "cells/compile/plan_cell.h"
#include "cells/device/cpu/cell_rows.h"
#include "cells/device/cpu/core_team.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/reference/interpreter.h"

namespace cellbatch::testing {

struct TrialOptions {
  int32_t rows = 50;                    // of each table, and the most nodes of a batch
  int32_t words = 1000;                 // columns of INT32 hold numbers below it
  std::set<std::string> positive = {};  // columns ("before.n") that hold numbers above 0.1
  bool fold = false;                    // every table row that starts a product
  bool fold_whole = false;              // REQUIRES: what it leaves depends on a token alone
  Precision precision = Precision::kFp32;
  bool zero_row = false;  // row 0 of every input is zeros, and known to be
  bool prepare = true;    // what parameters alone make is computed at load, else by each node
  // Who says where everything lies; empty: the compiler.
  std::function<CellPlan(const CellSkeleton&)> plan = {};
  // Who says what is batched and where it lies, for the batched executor to run; empty: the compiled cell runs.
  std::function<BatchedProgram(const CellDefinition&)> batched = {};
  bool vendor_products = true;  // of the batched executor; else the kernels'
  // Who runs the nodes of a batch: another device's kernels. Empty: the compiled cell.
  std::function<void(const PackedCell&, const CellColumns&, const NodeLists&)> run = {};
  ProgramLimits limits =
      kCpuLimits;  // of the device that the program is for; the CPU runs smaller ones, too
};

class CellTrial {
 public:
  CellTrial(CellDefinition definition, uint64_t seed, const kernels::CpuKernels& kernels,
            const TrialOptions& options = {});

  // On one core; a kSum input is of none to three rows.
  void Run(int32_t nodes);
  // A node for each of `rows`: it reads that row of every input; of a kSum input `arity` rows from there on.
  void Run(const std::vector<Row>& rows, CoreTeam& team, int32_t arity = 3);

  const CellType& type() const { return type_; }
  const PackedCell& packed() const { return *packed_; }
  const CellColumns& columns() const { return rows_.columns(); }  // for runs of one's own
  const BatchedCounts& counts() const { return counts_; }   // of the last run, if it was batched
  int64_t counted_bytes() const { return counted_bytes_; }  // what packing was said to take

  // Of the last run, by node.
  std::vector<RowValues> Inputs(int32_t node) const;
  std::vector<std::vector<float>> Left(int32_t node) const { return rows_.Left(node); }
  RowValues LeftValues(int32_t node) const;  // the same as numbers
  RowValues Expected(int32_t node) const;    // the interpreter's, of what W8 makes of the weights
  // Empty if they agree within design.md's bounds (Numbers), else where they do not.
  std::string Disagreement(int32_t node) const;

 private:
  void Fill(const ColumnArray& column, uint64_t seed, bool positive) const;
  void RunReads(int32_t nodes, CoreTeam& team);

  TrialOptions options_;
  CellType type_;
  std::unique_ptr<PackedCell> packed_;
  std::unique_ptr<BatchedCell> batched_;
  BatchedCounts counts_;
  int64_t counted_bytes_ = 0;
  CellRows rows_;
  CellRows::Reads reads_;
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_CELL_TRIAL_H_
