#include "cells/cell_graph_heights.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"

namespace cellbatch {

// Readers come after what they read, so one pass from the back sees them first.
std::vector<int32_t> SameTypeHeights(const CellGraph& graph, const Model& model) {
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  const absl::Span<const Subgraph> piece = graph.piece();
  const size_t types = model.types.size();
  std::vector<int32_t> heights(piece.size(), 0);
  // By subgraph, type: the most on a path behind it. Few enough that most graphs allocate nothing for it.
  absl::InlinedVector<int32_t, 1024> below(piece.size() * types, 0);
  for (size_t i = piece.size(); i-- > 0;) {
    const Subgraph& s = piece[i];
    int32_t* const mine = &below[i * types];
    bool first = true;
    for (const SubgraphId reader :
         graph.consumers().subspan(at(s.first_consumer), at(s.num_consumers))) {
      const size_t r = at(reader.value() - graph.first_subgraph());
      const int32_t* const its = &below[r * types];
      if (first) {
        std::copy_n(its, types, mine);
      } else {
        for (size_t t = 0; t < types; ++t) mine[t] = std::max(mine[t], its[t]);
      }
      first = false;
      const size_t type = at(piece[r].type.value());
      mine[type] = std::max(mine[type], heights[r]);
    }
    if (!s.type.valid()) continue;
    const bool chain = model.type(s.type).definition->carry().has_value();
    heights[i] = (chain ? s.length : 1) + mine[at(s.type.value())];
  }
  return heights;
}

}  // namespace cellbatch
