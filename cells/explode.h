// A cell taken apart into its operators: each becomes a definition of its own, so that the same request can be
// scheduled cell by cell or operator by operator, as DyNet does. One machinery for both: what comes out are cells.
//
//   LSTM  h' = o tanh(c')   ==>   ... node 17: Tanh(v[H])   reads node 16
//                                     node 18: Mul(v[H], v[H])   reads nodes 13 and 17   <- output h
//
// What is a node: every operator on values of the node's own, slices, concatenations and lookups included; the sum of an
// input of arity kSum (one node for each column); a weight or an input's column that is left as it is.
// What is free: reading an input, parameters, constants, and what is computed from those alone (a row block of a
// stacked matrix): it is a weight of the operator that reads it, computed once at load.
//
// Every node leaves one column, "v", and reads columns of that name. Pure, any thread; load time.
#ifndef CELLBATCH_CELLS_EXPLODE_H_
#define CELLBATCH_CELLS_EXPLODE_H_

#include <memory>
#include <string>
#include <vector>

#include "cells/cell_definition.h"
#include "cells/cell_type.h"

namespace cellbatch {

inline constexpr char kOperatorColumn[] = "v";

// What an input of an operator reads: what node `node` of the same cell left, or (node < 0) column `column` of the
// cell's own input `input`.
struct OperatorSource {
  int32_t node = -1;
  InputId input = {};
  int32_t column = 0;
  friend bool operator==(const OperatorSource&, const OperatorSource&) = default;
};

struct OperatorNode {
  std::shared_ptr<const CellDefinition> definition;  // one operator
  // The definition in words: equal definitions have equal ones.
  std::string signature;
  std::vector<OperatorSource> sources;  // by input of `definition`
  std::vector<ValueId> weights;  // by parameter of `definition`: which value of the cell it is
};

struct ExplodedCell {
  std::vector<OperatorNode> nodes;  // each reads earlier ones only
  std::vector<int32_t> outputs;     // by output of the cell: the node that leaves it
};

ExplodedCell Explode(const CellDefinition& cell);

// The value of `cell` that depends on its parameters alone. A parameter itself is shared, not copied.
Weight EvaluateWeight(const CellDefinition& cell, const Weights& weights, ValueId value);

// "v", as one column of a table: what operators leave of that type and width.
Column OperatorColumn(ElementType type, int64_t width);
// Leaves what it reads.
OperatorNode CopyOperator(ElementType type, int64_t width, const OperatorSource& source);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_EXPLODE_H_
