// Trees, binary or of any arity, one cell a node (TreeLSTM, TreeGRU, MV-RNN; design.md section 5, algorithms.md section 8).
//
//   TOKENS t0 t1 t2, CHILDREN (1 2) (0 3)
//
//   t0 --> leaf 0 ---------------------+
//   t1 --> leaf 1 --+                  +--> node 4 --> output --> OUTPUT
//                   +--> node 3 -------+
//   t2 --> leaf 2 --+
//
// The leaves of a tree are one set of independent nodes, each internal node a subgraph of its own; children are linked
// in their order. With `edge` there is one more node for each child, between it and its parent (child-sum TreeLSTM:
// the f * c of each child); those of leaves that lie side by side are one set. Output cells are made where somebody
// asks for them: at the root for OUTPUT, at every node for NODE_OUTPUTS.
//
//   OUTPUT        root's h [H]; with an output cell its y [C]
//   NODE_OUTPUTS  [nodes, C]: the output cell on every node
//   ALL_HIDDEN    [nodes, H]: their h;   FINAL_H, FINAL_C [H]: the root's
//
// Rows of nodes are in the order of the request's numbers (forest.h: also how a request says its trees). Of several
// trees (LENGTHS) they lie end to end, and OUTPUT, FINAL_H and FINAL_C gain a leading dimension.
//
// Immutable after Create; any thread. Unfold costs O(nodes), no recursion.
#ifndef CELLBATCH_CELLS_UNFOLD_TREE_UNFOLDER_H_
#define CELLBATCH_CELLS_UNFOLD_TREE_UNFOLDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/model.h"
#include "cells/unfold/forest.h"
#include "cells/unfold/unfolder.h"

namespace cellbatch {

// Cells meet by the names of their inputs:
//   embedding  one input, a token; leaves what all others then read instead of tokens
//   leaf       one input: the token
//   internal   "child0", "child1", .. (absent ones read zeros), or "children" (SUM); "x": the node's own token ("token",
//              which is its name behind "embed"); "edges" (SUM): what `edge` left for each child
//   edge       one node a child: "x" ("token") is the parent's token, "child" the child
//   output     one input: a node; leaves "y"
// Leaves and internal nodes leave the same columns.
struct TreeSpec {
  TableId tokens;        // of the request
  CellTypeId embedding;  // optional
  CellTypeId leaf;       // optional: else a leaf is a node of internal[0] without children
  std::vector<CellTypeId> internal;
  CellTypeId edge;    // where an internal cell reads "edges"
  CellTypeId output;  // optional: without it nodes have an "h"
  IdRange known_words;
  std::shared_ptr<const Vocabulary> vocabulary;  // optional: TREE is taken
  int64_t max_nodes = 0;                         // cells of one request
};

class TreeUnfolder : public Unfolder {
 public:
  // Reads `model`'s types and tables (not kept). INVALID_ARGUMENT names the type and what it lacks.
  static absl::StatusOr<std::unique_ptr<TreeUnfolder>> Create(const TreeSpec& spec,
                                                              const Model& model);

  // The tensors of such a model: every output but OUTPUT is on request and not listed.
  Signature MakeSignature() const;

  absl::Status Unfold(const RequestInput& input, CellGraph& graph) const override;
  // The tree, then its outputs.
  int32_t phases() const override { return output_.valid() ? 2 : 1; }
  RequestDescription Describe() const override;

 private:
  // What one input of a cell reads, in the order of the cell's inputs.
  struct Slot {
    enum class Reads : uint8_t { kToken, kChild, kChildren, kEdges };
    Reads reads;
    InputId input;
    int32_t child = 0;  // kChild: which
  };
  struct Cell {
    CellTypeId type;
    std::string name;  // for error texts
    std::vector<Slot> slots;
    int32_t max_children = 0;
    bool sets = true;  // several nodes may be one subgraph (no input sums)
    bool Has(Slot::Reads what) const {
      for (const Slot& slot : slots) {
        if (slot.reads == what) return true;
      }
      return false;
    }
  };
  struct Leaves {  // a column of a type
    ColumnId column;
    int32_t width = 0;
  };
  struct Asked;   // the numbers of the tensors that this request returns
  class Builder;  // of one request

  TreeUnfolder() = default;
  absl::Status ReadSource(const TreeSpec& spec, const Model& model);
  absl::StatusOr<Cell> MakeInternal(const Model& model, CellTypeId id, CellTypeId edge) const;
  absl::StatusOr<Cell> MakeEdge(const Model& model, CellTypeId id) const;
  absl::Status MakeLeaf(const Model& model, CellTypeId id);
  absl::Status MakeCells(const TreeSpec& spec, const Model& model);
  absl::Status MakeOutput(const Model& model, CellTypeId id);
  void NameOutputs();

  absl::Status CheckArity(const Forest& forest) const;
  int64_t EdgesOf(const Forest& forest) const;
  // Exact: refuses what makes one cell more than the model takes.
  absl::Status CheckSize(const Forest& forest, const Asked& asked) const;
  GraphBounds Bounds(const Forest& forest, const Asked& asked) const;
  absl::StatusOr<Asked> AddTensors(const RequestInput& input, const Forest& forest,
                                   CellGraph& graph) const;

  TableId tokens_;
  TableId rows_;  // what leaves and "x" read: tokens, or what the embedding leaves
  TableId node_;  // what nodes leave
  ForestRules rules_;
  CellTypeId embedding_;
  InputId embedding_input_;
  Cell leaf_;  // one slot
  std::vector<Cell> internal_;
  Cell edge_;  // no type: there is none
  CellTypeId output_;
  InputId output_input_;
  Leaves y_, h_, c_;                       // no column: there is none
  std::vector<std::string_view> outputs_;  // names
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_TREE_UNFOLDER_H_
