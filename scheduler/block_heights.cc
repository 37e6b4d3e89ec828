#include "scheduler/block_heights.h"

#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "cells/cell_graph_heights.h"

namespace cellbatch {
namespace {

static_assert(sizeof(BlockHeights::Nodes) == 2 * sizeof(int32_t));
static_assert(sizeof(BlockHeights::Tops) == 2 * sizeof(int32_t));

}  // namespace

// A type has a node at every height below its tallest one's, or nearly (pieces, kMostHeight): places for all of them,
// type after type, are no more than there are nodes.
BlockHeightsBuilder::BlockHeightsBuilder(const CellGraph& graph, const Model& model)
    : heights_(SameTypeHeights(graph, model)) {
  const size_t types = model.types.size();
  absl::InlinedVector<int32_t, 32> nodes(types, 0), first(types + 1, 0);
  for (size_t i = 0; i < heights_.size(); ++i) {
    const Subgraph& s = graph.piece()[i];
    if (!s.type.valid()) continue;
    const auto type = static_cast<size_t>(s.type.value());
    heights_[i] = std::min(heights_[i], NodeFacts::kMostHeight);
    nodes[type] += s.length;
    first[type + 1] = std::max(first[type + 1], heights_[i] + 1);
  }
  for (size_t t = 0; t < types; ++t) first[t + 1] += first[t];
  absl::InlinedVector<int32_t, 256> at_height(static_cast<size_t>(first[types]), 0);
  for (size_t i = 0; i < heights_.size(); ++i) {
    const Subgraph& s = graph.piece()[i];
    if (!s.type.valid()) continue;
    const bool chain = model.type(s.type).definition->carry().has_value();
    const int32_t place = first[static_cast<size_t>(s.type.value())] + heights_[i];
    at_height[static_cast<size_t>(place)] += chain ? 1 : s.length;
  }
  tops_.reserve(at_height.size());
  for (size_t t = 0; t < types; ++t) {
    if (nodes[t] > 0) nodes_.push_back({static_cast<int32_t>(t), nodes[t]});
    for (int32_t place = first[t]; place < first[t + 1]; ++place) {
      const int32_t count = at_height[static_cast<size_t>(place)];
      if (count == 0) continue;
      tops_.push_back({static_cast<int16_t>(t), static_cast<int16_t>(place - first[t]), count});
    }
  }
}

void BlockHeightsBuilder::Fill(int32_t* at) const {
  at[0] = static_cast<int32_t>(nodes_.size());
  at[1] = static_cast<int32_t>(tops_.size());
  std::memcpy(at + 2, nodes_.data(), nodes_.size() * sizeof(nodes_[0]));
  std::memcpy(at + 2 + 2 * nodes_.size(), tops_.data(), tops_.size() * sizeof(tops_[0]));
}

}  // namespace cellbatch
