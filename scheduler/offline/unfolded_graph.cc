#include "scheduler/offline/unfolded_graph.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "cells/cell_graph_depths.h"

namespace cellbatch {
namespace {

constexpr int32_t kNone = -1;

// First node of each subgraph, kNone for inputs.
using Firsts = std::vector<int32_t>;

// What node `t` of `s` reads that is computed.
void FindPredecessors(const CellGraph& request, const Subgraph& s, const Firsts& firsts, bool chain,
                      InputId carry, int32_t t, std::vector<int32_t>& found) {
  const absl::Span<const Link> links =
      request.links().subspan(static_cast<size_t>(s.first_link), static_cast<size_t>(s.num_links));
  for (const Link& link : links) {
    if (link.from == kZeroSource || (chain && t > 0 && link.input == carry)) continue;
    const auto from = static_cast<size_t>(link.from.value());
    if (firsts[from] == kNone) continue;
    const int32_t node = link.first == kLastNode ? request.subgraphs()[from].length - 1
                                                 : link.first + t * link.stride;
    found.push_back(firsts[from] + node);
  }
}

// Where a node stands in its request's program.
struct Standing {
  int32_t phase, place;
};

// Of the nodes from `first` on, one standing each.
class DepthTeller {
 public:
  DepthTeller(const UnfoldOptions& options, const std::vector<Standing>& nodes, TypedGraph& graph)
      : options_(options),
        nodes_(nodes),
        graph_(graph),
        first_(graph.size() - static_cast<int32_t>(nodes.size())),
        depths_(nodes.size(), 0) {}

  void Tell() {
    ForEachArrow(
        [this](size_t from, size_t to) { depths_[to] = std::max(depths_[to], depths_[from] + 1); });
    if (options_.ghosts) Raise();
    for (size_t v = 0; v < nodes_.size(); ++v) {
      const bool placed = options_.ghosts && nodes_[v].place >= 0;
      graph_.TellDepth(first_ + static_cast<int32_t>(v),
                       ToldDepth(Phase(v), placed ? nodes_[v].place : depths_[v], options_.phases));
    }
  }

 private:
  int32_t Phase(size_t v) const { return std::min(nodes_[v].phase, options_.phases - 1); }

  // Within a phase; by where it leads, in order.
  void ForEachArrow(const std::function<void(size_t from, size_t to)>& visit) const {
    for (size_t to = 0; to < nodes_.size(); ++to) {
      for (const int32_t p : graph_.predecessors(first_ + static_cast<int32_t>(to))) {
        const auto from = static_cast<size_t>(p - first_);
        if (Phase(from) == Phase(to)) visit(from, to);
      }
    }
  }

  void Raise() {
    std::vector<std::vector<size_t>> readers(nodes_.size());
    std::vector<bool> reads(nodes_.size(), false);
    ForEachArrow([&](size_t from, size_t to) {
      readers[from].push_back(to);
      reads[to] = true;
    });
    for (size_t v = nodes_.size(); v-- > 0;) {
      if (!reads[v] || readers[v].empty()) continue;
      int32_t earliest = depths_[readers[v][0]];
      for (const size_t reader : readers[v]) earliest = std::min(earliest, depths_[reader]);
      depths_[v] = earliest - 1;
    }
  }

  const UnfoldOptions& options_;
  const std::vector<Standing>& nodes_;
  TypedGraph& graph_;
  const int32_t first_;
  std::vector<int32_t> depths_;
};

}  // namespace

void AppendUnfolded(const CellGraph& request, const Model& model, TypedGraph& graph) {
  Firsts firsts(request.subgraphs().size(), kNone);
  std::vector<int32_t> predecessors;
  std::vector<Standing> nodes;
  for (size_t i = 0; i < firsts.size(); ++i) {
    const Subgraph& s = request.subgraphs()[i];
    if (!s.type.valid()) continue;
    const auto carry = model.type(s.type).definition->carry();
    for (int32_t t = 0; t < s.length; ++t) {
      predecessors.clear();
      if (carry.has_value() && t > 0) predecessors.push_back(graph.size() - 1);
      FindPredecessors(request, s, firsts, carry.has_value(), carry.value_or(InputId()), t,
                       predecessors);
      const int32_t node = graph.Add(s.type.value(), predecessors);
      if (t == 0) firsts[i] = node;
      nodes.push_back({s.phase, s.place < 0 ? -1 : s.place + (carry.has_value() ? t : 0)});
    }
  }
  if (model.unfold.phases > 1 || model.unfold.ghosts) {
    DepthTeller(model.unfold, nodes, graph).Tell();
  }
}

}  // namespace cellbatch
