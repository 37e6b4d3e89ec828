// What ordering is about, and nothing else: nodes with a type, and who waits for whom. A request's cells as the server
// unfolds them (unfolded_graph.h), many requests side by side, or a graph written by hand.
//
// Nodes are numbered in an order in which predecessors come first, so one pass forwards or backwards sees them in
// order. Policies that look at depth see the longest path, unless something else is told of a node
// (cells/cell_graph_depths.h). Plain value, flat arrays; one thread writes, any read.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_TYPED_GRAPH_H_
#define CELLBATCH_SCHEDULER_OFFLINE_TYPED_GRAPH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace cellbatch {

class TypedGraph {
 public:
  explicit TypedGraph(int32_t num_types) : num_types_(num_types) {}

  // A node behind all others; its number. Predecessors are earlier nodes; one that is named twice counts once.
  int32_t Add(int32_t type, absl::Span<const int32_t> predecessors);
  // What policies are told of that node's depth.
  void TellDepth(int32_t node, int32_t depth) { told_[static_cast<size_t>(node)] = depth; }
  // The nodes of `other`, which has as many types, beside those that are there.
  void Append(const TypedGraph& other);
  // Every arrow turned round: node v is node size() - 1 - v there. The fewest batches are the same (a schedule read
  // backwards is one of the other graph); what a rule of thumb finds is not. Nothing is told
  // of its depths.
  TypedGraph Reversed() const;

  int32_t size() const { return static_cast<int32_t>(types_.size()); }
  int32_t num_types() const { return num_types_; }
  int32_t type(int32_t node) const { return types_[static_cast<size_t>(node)]; }
  absl::Span<const int32_t> types() const { return types_; }
  // -1: nothing is told, so the longest path from a source.
  int32_t told_depth(int32_t node) const { return told_[static_cast<size_t>(node)]; }
  absl::Span<const int32_t> predecessors(int32_t node) const {
    const auto from = static_cast<size_t>(first_[static_cast<size_t>(node)]);
    const auto to = static_cast<size_t>(first_[static_cast<size_t>(node) + 1]);
    return absl::MakeConstSpan(predecessors_).subspan(from, to - from);
  }

 private:
  int32_t num_types_;
  std::vector<int32_t> types_;
  std::vector<int32_t> told_;         // by node
  std::vector<int32_t> first_ = {0};  // by node, and one more: where its predecessors begin
  std::vector<int32_t> predecessors_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_TYPED_GRAPH_H_
