// The states of a model's chains as tensors: what they begin from, where a request brings it, and what they leave.
//
//   INITIAL_H, INITIAL_C  [layers*D, H]    before the first step of every layer and direction, in PyTorch's order (h_0, c_0)
//   FINAL_H, FINAL_C      [layers*D, H]    after the last one
//   with LENGTHS [B]: [B, layers*D, H]
//
// So a sequence that comes in pieces (a live stream) is a line of requests, each of which begins from what the one before it
// left; bits are those of the sequence as a whole. The server keeps nothing between them: any replica may serve the next.
//
// A column of the cells is one tensor, called after it (INITIAL_N of "n"), where all chains leave it in one width. States can
// be brought where these are all that a step reads of the step before. Immutable; any thread.
#ifndef CELLBATCH_CELLS_UNFOLD_CHAIN_STATES_H_
#define CELLBATCH_CELLS_UNFOLD_CHAIN_STATES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/unfold/request_input.h"

namespace cellbatch {

// The FP32 column of that name that cells of that type leave; invalid: none.
ColumnId FindFloats(const CellType& type, std::string_view name);

class ChainStates {
 public:
  // One column, of all chains.
  struct Part {
    std::string initial, final;  // what its tensors are called
    int32_t width = 0;
    bool carried = false;           // a step reads it of the step before
    std::vector<ColumnId> columns;  // by chain
  };
  // By chain: a row of each sequence, to begin from. None: all begin from zeros.
  using Begins = std::vector<SubgraphId>;

  ChainStates() = default;
  // Of chains in PyTorch's order: layer by layer, forward first. REQUIRES: at least one; each carries an input.
  ChainStates(const Model& model, absl::Span<const CellTypeId> chains);

  // "h" first, then "c", then others in the order in which a step reads them.
  absl::Span<const Part> parts() const { return parts_; }
  bool may_be_brought() const { return may_be_brought_; }
  int64_t num_chains() const { return static_cast<int64_t>(rows_.size()); }

  bool Brings(const RequestInput& input) const;
  // What `input` brings: every carried part, or none. `sequences`: as many as LENGTHS says, if it is there. O(bytes).
  absl::StatusOr<Begins> Read(const RequestInput& input, std::optional<int64_t> sequences,
                              CellGraph& graph) const;

 private:
  // A chain's row, as it is brought: of its table's columns those that are parts, one after the other.
  struct Row {
    TableId table;
    ColumnSet columns;
    std::vector<int> parts;
  };
  void AddPart(const Model& model, absl::Span<const CellTypeId> chains, std::string_view name);
  int PartOf(size_t chain, ColumnId column) const;

  std::vector<Part> parts_;
  std::vector<Row> rows_;  // by chain
  bool may_be_brought_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_UNFOLD_CHAIN_STATES_H_
