// A graph that the request draws itself: any cells, any edges from lower to higher numbers.
//
//   types "leaf", "node", "out"      NODE_TYPES [0 0 1 0 1 2]        "leaf.x" [3, D]: rows of nodes
//                                                                               0, 1 and 3
//    0 leaf --+                      EDGES  0 2 0    (from, to, input of `to` by its place in
//             +--> 2 node --+               1 2 1     the cell's inputs)
//    1 leaf --+             +--> 4          2 4 0
//                  3 leaf --+    |          3 4 1
//                                v          4 5 0
//                              5 out
//
// Several edges into one SUM input are added in their order in EDGES; an input without an edge reads
// zeros. Inputs that the request brings are not for edges: a tensor "type.input" has a row for each
// node of the type, in their order; it is left out where there are none.
//
//   OUTPUT        [W]: column `output` of the last node of `output_type`, or of the last node
//   NODE_OUTPUTS  [nodes, W]: of every node of that type, or of all nodes
//
// Neighbours in the numbering of one type that read no other node are one set; every other node is
// by itself, ready when what it reads is. Immutable after Create; any thread. Unfold costs
// O(nodes + edges): nothing is sorted by comparison, nothing recurs.
#ifndef CELLBATCH_CELLS_UNFOLD_DAG_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_DAG_UNFOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "cells/unfold/node_type.h"
#include "cells/unfold/request_check.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

inline constexpr char kNodeTypesInput[] = "NODE_TYPES";
inline constexpr char kEdgesInput[] = "EDGES";
// A request may have so many edges for each node that the model takes.
inline constexpr int64_t kMaxEdgesPerNode = 16;

struct DagSpec {
  std::vector<CellTypeId> types;  // as NODE_TYPES numbers them
  std::vector<BroughtInput> inputs;
  std::vector<int32_t> phases;  // of types, in their order (CellGraph::SetPhase); empty: all 0
  CellTypeId output_type;       // invalid: the last node's, where all leave `output` alike
  std::string output;           // a column; FP32 or INT32
  int64_t max_nodes = 0;        // of one request
};

class DagUnfolder : public Unfolder {
 public:
  // Reads `model`'s types and tables (not kept). INVALID_ARGUMENT names the type and what it lacks.
  static absl::StatusOr<std::unique_ptr<DagUnfolder>> Create(const DagSpec& spec,
                                                             const Model& model);

  Signature MakeSignature() const;

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  int32_t phases() const override { return phases_; }
  RequestDescription Describe() const override;

 private:
  struct Type : NodeType {
    ColumnId output;                               // invalid: its nodes are no outputs
    bool sets() const { return !chain && !sums; }  // may stand in subgraphs of several nodes
  };
  // What one request says, checked.
  struct Plan;
  class Builder;

  DagUnfolder() = default;
  absl::Status AddTypes(const Model& model, const DagSpec& spec);
  absl::Status FindOutput(const Model& model, const DagSpec& spec);

  absl::Status ReadNodes(const RequestInput& input, Plan& plan) const;
  absl::Status ReadEdges(const RequestInput& input, Plan& plan) const;
  absl::Status CheckEdge(const Plan& plan, int64_t index, absl::Span<const int32_t> edge) const;
  absl::Status CheckPorts(const Plan& plan) const;
  absl::Status AddRows(const RequestInput& input, Plan& plan, CellGraph& graph) const;
  absl::Status AddTensors(const RequestInput& input, Plan& plan, CellGraph& graph) const;

  std::vector<Type> types_;  // as NODE_TYPES numbers them
  std::vector<std::string> tensor_names_;
  int32_t output_type_ = -1;  // -1: any
  WireType output_wire_ = WireType::kFp32;
  int32_t output_width_ = 0;
  int64_t max_nodes_ = 0;
  int32_t phases_ = 1;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_DAG_UNFOLDER_H_
