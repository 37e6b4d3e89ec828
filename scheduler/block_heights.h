// Makes the heights of a block (BlockHeights, NodeFacts): on the submitting thread, for lanes whose policy asks for them.
// O((subgraphs + links) x types).
#ifndef CELLBATCH_SCHEDULER_BLOCK_HEIGHTS_H_
#define CELLBATCH_SCHEDULER_BLOCK_HEIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/model.h"
#include "scheduler/request_block.h"

namespace cellbatch {

class BlockHeightsBuilder {
 public:
  // Of the graph's latest piece.
  BlockHeightsBuilder(const CellGraph& graph, const Model& model);

  // Of the first node of a subgraph, by place in the piece; what is taller counts as kMostHeight.
  int32_t height(size_t subgraph) const { return heights_[subgraph]; }
  // What RequestBlock::heights reads: {types, levels}, Nodes by type, Tops by type and level.
  size_t ints() const { return 2 + 2 * (nodes_.size() + tops_.size()); }
  void Fill(int32_t* at) const;

 private:
  std::vector<int32_t> heights_;
  std::vector<BlockHeights::Nodes> nodes_;
  std::vector<BlockHeights::Tops> tops_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_BLOCK_HEIGHTS_H_
