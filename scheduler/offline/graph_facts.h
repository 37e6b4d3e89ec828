// What a replay looks up of a graph, made once: who reads whom, how deep and how tall nodes are, and the subgraphs of
// one type (ED-Batch's G^a).
//
//   G^a: the nodes of type a, an arrow from u to w where w is reached from u through other types. Kept without the
//   arrows that others imply (u -> x -> w makes u -> w idle), so that counting open ones finds its frontier in O(1)
//   an arrow.                a --> b --> a --> a            G^a:  a --> a --> a
//                            +-----------------^
// O(nodes + arrows) time for depths and heights, and for G^a what is walked over between two nodes of a type. The graph
// is borrowed. Immutable once made; any thread.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_GRAPH_FACTS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_GRAPH_FACTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/typed_graph.h"

namespace cellbatch {

// Numbers by node in one array.
class NodeTable {
 public:
  NodeTable() = default;
  // Turns lists round: w is in the list of v here, where v was in that of w there.
  static NodeTable Inverse(const NodeTable& lists);
  void Close() {
    first_.push_back(static_cast<int32_t>(all_.size()));
  }  // the list of the next node
  void Push(int32_t node) { all_.push_back(node); }
  absl::Span<const int32_t> operator[](int32_t node) const {
    const auto from = static_cast<size_t>(first_[static_cast<size_t>(node)]);
    const auto to = static_cast<size_t>(first_[static_cast<size_t>(node) + 1]);
    return absl::MakeConstSpan(all_).subspan(from, to - from);
  }
  int32_t nodes() const { return static_cast<int32_t>(first_.size()) - 1; }

 private:
  std::vector<int32_t> first_ = {0};
  std::vector<int32_t> all_;
};

struct GraphFacts {
  explicit GraphFacts(const TypedGraph& of);

  const TypedGraph& graph;
  NodeTable successors;
  NodeTable heirs;              // G^a of its own type: who follows
  std::vector<int32_t> elders;  // and how many go before
  std::vector<int32_t> depth;   // as told, or the longest path from a source; a source's is 0
  std::vector<int32_t>
      height;  // nodes of its own type on the longest path in them that begins with it
  std::vector<int32_t> tallest;     // by type: the greatest height; 0: it has no node
  std::vector<int32_t> type_nodes;  // by type: how many
  int32_t deepest = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_GRAPH_FACTS_H_
