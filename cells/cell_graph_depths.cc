#include "cells/cell_graph_depths.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace cellbatch {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Of one graph.
class DepthFinder {
 public:
  DepthFinder(const CellGraph& graph, const Model& model)
      : graph_(graph), model_(model), piece_(graph.piece()) {}

  std::vector<int32_t> Find() {
    FindPaths();
    if (model_.unfold.ghosts) RaiseShorterArms();
    for (size_t i = 0; i < piece_.size(); ++i) {
      const Subgraph& s = piece_[i];
      if (!s.type.valid()) continue;
      if (model_.unfold.ghosts && s.place >= 0) depths_[i] = s.place;
      depths_[i] = ToldDepth(PhaseOf(s), depths_[i], model_.unfold.phases);
    }
    return std::move(depths_);
  }

 private:
  int32_t PhaseOf(const Subgraph& s) const { return std::min(s.phase, model_.unfold.phases - 1); }
  int32_t NodesOnPath(const Subgraph& s) const {
    return model_.type(s.type).definition->carry().has_value() ? s.length : 1;
  }

  // Longest paths within phases: what is read comes earlier.
  void FindPaths() {
    depths_.assign(piece_.size(), 0);
    reads_its_phase_.assign(piece_.size(), false);
    for (size_t i = 0; i < piece_.size(); ++i) {
      const Subgraph& s = piece_[i];
      for (const Link& link : graph_.links().subspan(At(s.first_link), At(s.num_links))) {
        if (link.from == kZeroSource) continue;
        const Subgraph& from = graph_.subgraphs()[At(link.from.value())];
        if (!from.type.valid() || PhaseOf(from) != PhaseOf(s)) continue;
        const bool earlier = link.from.value() < graph_.first_subgraph();
        const int32_t begins =
            earlier ? from.depth : depths_[At(link.from.value() - graph_.first_subgraph())];
        depths_[i] = std::max(depths_[i], begins + NodesOnPath(from));
        reads_its_phase_[i] = true;
      }
    }
  }

  // Readers come after what they read, so one pass from the back sees them first.
  void RaiseShorterArms() {
    for (size_t i = piece_.size(); i-- > 0;) {
      const Subgraph& s = piece_[i];
      if (!s.type.valid() || !reads_its_phase_[i]) continue;
      int32_t earliest = std::numeric_limits<int32_t>::max();
      for (const SubgraphId reader :
           graph_.consumers().subspan(At(s.first_consumer), At(s.num_consumers))) {
        const size_t r = At(reader.value() - graph_.first_subgraph());
        if (PhaseOf(piece_[r]) == PhaseOf(s)) earliest = std::min(earliest, depths_[r]);
      }
      if (earliest == std::numeric_limits<int32_t>::max()) continue;
      depths_[i] = std::max(depths_[i], earliest - NodesOnPath(s));
    }
  }

  const CellGraph& graph_;
  const Model& model_;
  const absl::Span<const Subgraph> piece_;
  std::vector<int32_t> depths_;        // by place in the piece
  std::vector<bool> reads_its_phase_;  // something computed in its own phase
};

}  // namespace

int32_t PhaseStride(int32_t phases) {
  return kToldDepths / static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(phases)));
}

int32_t ToldDepth(int32_t phase, int32_t depth, int32_t phases) {
  if (phases <= 1) return depth;
  const int32_t stride = PhaseStride(phases);
  return phase * stride + std::min(depth, stride - 1);
}

std::vector<int32_t> ToldDepths(const CellGraph& graph, const Model& model) {
  if (model.unfold.phases <= 1 && !model.unfold.ghosts) {  // as Seal found them
    std::vector<int32_t> depths;
    depths.reserve(graph.piece().size());
    for (const Subgraph& s : graph.piece()) depths.push_back(s.depth);
    return depths;
  }
  return DepthFinder(graph, model).Find();
}

}  // namespace cellbatch
