#include "scheduler/offline/unfolded_graph.h"

#include <vector>

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

}  // namespace

void AppendUnfolded(const CellGraph& request, const Model& model, TypedGraph& graph) {
  Firsts firsts(request.subgraphs().size(), kNone);
  std::vector<int32_t> predecessors;
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
    }
  }
}

}  // namespace cellbatch
