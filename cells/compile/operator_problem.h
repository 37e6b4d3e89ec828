// The operators of a cell, one by one, as a problem for memplan's operator batcher (memplan/operator_batcher.h): what a
// system without fusion would run, and the ground on which a naive and a planned layout can be compared (ED-Batch, Table 2).
//
//   MatMul(x, W [4H, D]), Slice 0..H, ...   ==>   op matmul v1 = W0.0 in0.0      each gate is an operator of its own, however
//                                                 op matmul v7 = W0.4096 in0.0   the definition stacks them
//
// Slices of products and parameters are gone (lane_graph.h), numbers that a cell states are part of what an operator does,
// and a product of joined vectors reads what an operator `concat` leaves. Variables are declared inputs first, then as
// somebody would who writes down what the outputs need, depth first. Names are names of memplan/problem_text.h.
//
// Pure, any thread; UNIMPLEMENTED as MakeSkeleton says it.
#ifndef CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_
#define CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "memplan/layout_problem.h"

namespace cellbatch {

// For a task of so many instances. Inputs lie in places of their own, but for the columns ("before.c") in `placed`, which
// have one in the plan.
absl::StatusOr<LayoutProblem> OperatorProblem(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_
