// A cell type as unfolders see it that take graphs from outside (requests, users' libraries): which
// rows each input reads, and which of them the request brings. Made once a model; plain values.
#ifndef CELLBATCH_CELLS_UNFOLD_NODE_TYPE_H_
#define CELLBATCH_CELLS_UNFOLD_NODE_TYPE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "cells/unfold/request_check.h"

namespace cellbatch {

// An input of a cell type that the request brings, not another node: rows of the tensor "type.input", or what a
// user's unfolder makes of the request.
struct BroughtInput {
  CellTypeId type;
  InputId input;
  IdRange known;  // INT32: numbers that are looked up; of size 0: any number
};

struct Port {
  std::string name;  // "leaf.x"
  TableId table;
  bool sums = false;
  bool carry = false;
  std::string reads;                         // the columns of its rows, for error texts
  bool brought = false;                      // by the request
  ElementType element = ElementType::kFp32;  // these of a brought one only
  int32_t width = 0;
  IdRange known;

  bool ids() const { return element == ElementType::kInt32; }
};

struct NodeType {
  CellTypeId id;
  std::string name;
  TableId out;
  std::string leaves;       // the columns of its rows, for error texts
  std::vector<Port> ports;  // by InputId
  bool chain = false;       // has a carry
  bool sums = false;        // has an input that sums: subgraphs of one node only
  int32_t phase = 0;        // CellGraph::SetPhase of its nodes
};

// Each type's phase, in their order; none named: all 0. Answers how many phases that makes, or INVALID_ARGUMENT: not one
// for each type, or beyond kMostPhases - 1.
absl::StatusOr<int32_t> SetPhases(absl::Span<const int32_t> phases, absl::Span<NodeType> types);

absl::StatusOr<NodeType> MakeNodeType(const Model& model, CellTypeId id);

// Marks what the request brings. INVALID_ARGUMENT: none of `types` has such an input, or it sums, is
// carried, or reads more than one column.
absl::Status MarkBrought(const Model& model, const BroughtInput& input, absl::Span<NodeType> types);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_NODE_TYPE_H_
