// What the benchmark `step` asks of any cell, shipped or a user's: one step of b rows through its compiled program, and
// what share of the machine's multiply-adds that is, beside the share that `lstm` reaches at the same width and batch.
//
//   lstm           4.20 Mflop a row * 16 rows / 73 us / peak    = of_peak
//   peephole_lstm  the same of its own                          / that of lstm = of_lstm, round by round
//
// Only a definition's products count as work; whatever else a cell does is what it loses. A step is RunCell on one
// core, on rows scattered as StepRows scatters them; nothing it leaves is read by the next one.
#ifndef CELLBATCH_TESTS_BENCH_STEP_CELLS_H_
#define CELLBATCH_TESTS_BENCH_STEP_CELLS_H_

#include <string>
#include <vector>

#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/tuning.h"
#include "tests/bench/findings.h"

namespace cellbatch {

struct CellsAsked {
  std::vector<std::string> shipped;      // names
  std::vector<std::string> definitions;  // files
  std::vector<int> h, b;
  int rounds = 0, slice_ms = 0;
};

// Cells of the papers with products, `lstm` first.
const std::vector<std::string>& CellsOfTheZoo();

// Contenders take turns in rounds. Figures "PREFIXCELL.h256_b16.of_peak" and "of_lstm" for each of `prefixes`. False: a
// cell cannot be had, or disagrees with the interpreter; the text says which. One thread, pinned by the caller.
bool MeasureCells(const CellsAsked& asked, const kernels::CpuKernels& kernels,
                  kernels::Tuning tuning, const std::vector<std::string>& prefixes, Findings& to);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_STEP_CELLS_H_
