// The operators of a cell, one by one, as a problem for memplan's operator batcher (memplan/operator_batcher.h): what a
// system without fusion runs (cells/batched does), and the ground on which a naive and a planned layout can be compared
// (ED-Batch, Table 2).
//
//   MatMul(x, W [4H, D]), Slice 0..H, ...   ==>   op matmul v1 = W0.0 in0.0      each gate is an operator of its own, however
//                                                 op matmul v7 = W0.4096 in0.0   the definition stacks them
//
// Slices of products and parameters are gone (lane_graph.h), numbers that a cell states are part of what an operator does,
// and a product of joined vectors reads what an operator `concat` leaves. Variables are declared inputs first, then as
// somebody would who writes down what the outputs need, depth first. Names are names of memplan/problem_text.h; operators
// of one name, sizes of operands and stated numbers do the same to other variables.
//
// Pure, any thread; UNIMPLEMENTED as MakeSkeleton says it.
#ifndef CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_
#define CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_definition.h"
#include "cells/program/cell_program.h"
#include "memplan/layout_problem.h"

namespace cellbatch {

// `width` lanes of a column that an input brings, from `offset` on; of a kSum input, of the sum of its rows.
struct BroughtLanes {
  int32_t input = 0, column = 0, offset = 0;
  bool summed = false;
};

// Elements of a parameter, stored [rows, cols]: (r, c) is data[offset + r * row_stride + c * col_stride]. What a product
// multiplies by is [depth, width], a vector has one row.
struct StoredWeights {
  ParameterId parameter;
  int64_t offset = 0, row_stride = 0, col_stride = 1;
  int32_t rows = 1, cols = 1;
  friend auto operator<=>(const StoredWeights&, const StoredWeights&) = default;
};

// What an operator does with its sources to leave `width` lanes. Sources are the operands behind the result.
struct MatMulOperator {};  // weights [depth, width], a row of `depth`
struct ElementWiseOperator {
  TailOpKind op = TailOpKind::kAdd;
  // By argument: a number that the cell states, or none: the next source.
  std::vector<std::optional<Constant>> args;
};
struct FillOperator {  // every lane this number
  Constant value;
};
struct LookupOperator {  // from `offset` on, of the row that the token chose
  int32_t lookup = 0, offset = 0;
};
struct JoinOperator {};  // the sources one behind the other
struct PartOperator {    // of the source, from `offset` on
  int32_t offset = 0;
};
struct PlainOperator {  // a step of its own; places unset, sources as dense as they are stored
  PlainStep step;
};

using VariableSource =
    std::variant<BroughtLanes, StoredWeights, MatMulOperator, ElementWiseOperator, FillOperator,
                 LookupOperator, JoinOperator, PartOperator, PlainOperator>;

struct OperatorVariable {
  int32_t width = 0;  // elements of an instance; of weights, of all
  ElementType type = ElementType::kFp32;
  VariableSource from;
};

struct CellOperators {
  LayoutProblem problem;                    // batches of single operators
  std::vector<OperatorVariable> variables;  // by VariableId
  std::vector<VariableId> outputs;          // by output column; may be an input or weights
  std::vector<LookupSpec> lookups;          // token places unset
};

// For a task of so many instances. Inputs lie in places of their own, but for the columns ("before.c") in `placed`, which
// have one in the plan.
absl::StatusOr<CellOperators> OperatorsOfCell(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed);

// The same, for who asks only where things lie.
absl::StatusOr<LayoutProblem> OperatorProblem(const CellDefinition& cell, int32_t instances,
                                              const std::vector<std::string>& placed);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_COMPILE_OPERATOR_PROBLEM_H_
