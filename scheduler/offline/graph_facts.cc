#include "scheduler/offline/graph_facts.h"

#include <algorithm>

namespace cellbatch {
namespace {

size_t At(int32_t i) { return static_cast<size_t>(i); }

NodeTable Predecessors(const TypedGraph& graph) {
  NodeTable lists;
  for (int32_t v = 0; v < graph.size(); ++v) {
    for (const int32_t p : graph.predecessors(v)) lists.Push(p);
    lists.Close();
  }
  return lists;
}

// [from * types + to]: whether some path leads from a node of one type to one of the other, as types feed types.
std::vector<char> TypesReached(const TypedGraph& graph) {
  const size_t types = At(graph.num_types());
  std::vector<char> reached(types * types, 0);
  for (int32_t v = 0; v < graph.size(); ++v) {
    for (const int32_t p : graph.predecessors(v)) {
      reached[At(graph.type(p)) * types + At(graph.type(v))] = 1;
    }
  }
  for (size_t via = 0; via < types; ++via) {
    for (size_t from = 0; from < types; ++from) {
      if (reached[from * types + via] == 0) continue;
      for (size_t to = 0; to < types; ++to) reached[from * types + to] |= reached[via * types + to];
    }
  }
  return reached;
}

// Finds the elders of one node after the other, in order.
class ElderSearch {
 public:
  explicit ElderSearch(const TypedGraph& graph)
      : graph_(graph),
        reached_(TypesReached(graph)),
        seen_(At(graph.size()), -1),
        implied_(At(graph.size()), -1) {}

  void Find(int32_t node, NodeTable& elders) {
    found_.clear();
    const int32_t type = graph_.type(node);
    if (Reaches(type, type)) Walk(node, type);
    std::sort(found_.begin(), found_.end(), std::greater<>());
    for (const int32_t elder : found_) {
      if (implied_[At(elder)] == node) continue;
      elders.Push(elder);
      MarkImplied(elder, node, elders);
    }
    elders.Close();
  }

 private:
  bool Reaches(int32_t from, int32_t to) const {
    return reached_[At(from) * At(graph_.num_types()) + At(to)] != 0;
  }

  // Backwards through other types, no further than the first node of the type on each path.
  void Walk(int32_t node, int32_t type) {
    open_ = {node};
    while (!open_.empty()) {
      const int32_t v = open_.back();
      open_.pop_back();
      for (const int32_t p : graph_.predecessors(v)) {
        if (seen_[At(p)] == node) continue;
        seen_[At(p)] = node;
        if (graph_.type(p) == type) {
          found_.push_back(p);
        } else if (Reaches(type, graph_.type(p))) {
          open_.push_back(p);
        }
      }
    }
  }

  // Whoever goes before a kept elder need not be kept: the elder waits for it. None before the earliest found matters.
  void MarkImplied(int32_t elder, int32_t node, const NodeTable& elders) {
    open_ = {elder};
    while (!open_.empty()) {
      const int32_t v = open_.back();
      open_.pop_back();
      for (const int32_t before : elders[v]) {
        if (before < found_.back() || implied_[At(before)] == node) continue;
        implied_[At(before)] = node;
        open_.push_back(before);
      }
    }
  }

  const TypedGraph& graph_;
  const std::vector<char> reached_;
  std::vector<int32_t> seen_, implied_;  // by node: the last one for which it was
  std::vector<int32_t> found_, open_;
};

// The one pass of a type's longest paths; heights begin at 1.
std::vector<int32_t> Heights(const TypedGraph& graph, const NodeTable& heirs) {
  std::vector<int32_t> height(At(graph.size()), 1);
  for (int32_t v = graph.size() - 1; v >= 0; --v) {
    for (const int32_t heir : heirs[v]) {
      height[At(v)] = std::max(height[At(v)], 1 + height[At(heir)]);
    }
  }
  return height;
}

}  // namespace

NodeTable NodeTable::Inverse(const NodeTable& lists) {
  NodeTable inverse;
  inverse.first_.assign(At(lists.nodes()) + 1, 0);
  for (const int32_t node : lists.all_) ++inverse.first_[At(node) + 1];
  for (size_t i = 1; i < inverse.first_.size(); ++i) inverse.first_[i] += inverse.first_[i - 1];
  inverse.all_.resize(lists.all_.size());
  std::vector<int32_t> next(inverse.first_.begin(), inverse.first_.end() - 1);
  for (int32_t v = 0; v < lists.nodes(); ++v) {
    for (const int32_t node : lists[v]) inverse.all_[At(next[At(node)]++)] = v;
  }
  return inverse;
}

GraphFacts::GraphFacts(const TypedGraph& of)
    : graph(of),
      successors(NodeTable::Inverse(Predecessors(of))),
      elders(At(of.size()), 0),
      depth(At(of.size()), 0),
      tallest(At(of.num_types()), 0),
      type_nodes(At(of.num_types()), 0) {
  NodeTable before;
  ElderSearch search(of);
  for (int32_t v = 0; v < of.size(); ++v) {
    search.Find(v, before);
    elders[At(v)] = static_cast<int32_t>(before[v].size());
    for (const int32_t p : of.predecessors(v)) {
      depth[At(v)] = std::max(depth[At(v)], depth[At(p)] + 1);
    }
  }
  for (int32_t v = 0; v < of.size(); ++v) {
    if (of.told_depth(v) >= 0) depth[At(v)] = of.told_depth(v);
    deepest = std::max(deepest, depth[At(v)]);
  }
  heirs = NodeTable::Inverse(before);
  height = Heights(of, heirs);
  for (int32_t v = 0; v < of.size(); ++v) {
    int32_t& most = tallest[At(of.type(v))];
    most = std::max(most, height[At(v)]);
    ++type_nodes[At(of.type(v))];
  }
}

}  // namespace cellbatch
