// What became of a cell, for people: its equations, the program it is compiled to, the plan of its memory, and what that
// saves beside a system that runs its operators one by one.
//
//   equations   i = sigmoid(b[0:64] + W[0:64] x + U[0:64] before.h)
//   program     product 4x64 in0.0[64] in1.0[64] tail 16 -> out0 -> out1
//   plan        which group's weights lie where, and which operand of which batch reads them
//   copies      operators one by one in declaration order, in the planned order, and as this program runs them
//
// Everything follows from the definition and the limits of a device; what that device makes of it is its own to say
// (cells/device/account.h). Pure, any thread; milliseconds: the searches for batches and plans are bounded in work.
#ifndef CELLBATCH_CELLS_EXPLAIN_EXPLAIN_CELL_H_
#define CELLBATCH_CELLS_EXPLAIN_EXPLAIN_CELL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// What one task costs beside its arithmetic.
struct TaskCopies {
  int launches = 0;  // kernels of the cell's own
  int copies = 0;    // kernels that only move rows or weights
  int64_t bytes = 0;
};

// A task of so many nodes, three ways. Inputs are read where they arrive, in all of them.
struct ComparedCopies {
  int nodes = 1;
  TaskCopies naive;    // operators in batches, variables in declaration order
  TaskCopies planned;  // the same batches, in the order that memplan finds
  TaskCopies fused;    // the compiled program: rows are gathered as they are read
};

struct CellExplanation {
  std::string equations;             // lines
  std::vector<std::string> steps;    // of the program, as Describe prints them
  std::vector<std::string> at_load;  // those that run once, likewise
  int64_t scratch_bytes = 0;         // of one node, between steps
  std::string plan;                  // drawn; empty: nothing has to lie beside anything
  bool least = false;                // proved: no plan stores or copies less
  std::vector<ComparedCopies> copies;
  int operators = 0;  // one by one, slices not counted
};

// The numbers of nodes that copies are counted for.
inline constexpr int kExplainedNodes[] = {1, 8};

// As Lower fails.
absl::StatusOr<CellExplanation> ExplainCell(const CellDefinition& cell,
                                            const ProgramLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EXPLAIN_EXPLAIN_CELL_H_
