#include "scheduler/offline/test_graphs.h"

#include <algorithm>
#include <set>

namespace cellbatch::offline_testing {
namespace {

enum LatticeLetters { kC, kLatticeO, kLatticeR, kS, kW, kLatticeTypes };

using Nodes = std::vector<int32_t>;

// Outputs on `states`; nodes of the outputs.
Nodes Outputs(TypedGraph& graph, int32_t type, const Nodes& states) {
  Nodes outputs;
  for (const int32_t state : states) outputs.push_back(graph.Add(type, {state}));
  return outputs;
}

// A chain of k nodes of one type, the other on each, R over those.
int32_t ChainUnderOutputs(TypedGraph& graph, int32_t k, int32_t chain, int32_t output, Nodes last) {
  Nodes states;
  for (int32_t i = 0; i < k; ++i) {
    states.push_back(graph.Add(chain, last));
    last = {states.back()};
  }
  return graph.Add(2, Outputs(graph, output, states));
}

// Its outputs.
Nodes AddLattice(TypedGraph& graph, const SmallLattice& lattice) {
  Nodes outputs = {graph.Add(kLatticeO, {})};
  std::vector<Nodes> state = {{}};  // by position; position 0 is given
  for (int32_t p = 1; p < lattice.positions; ++p) {
    Nodes arcs = {graph.Add(kC, state.back())};
    for (const auto& [from, to] : lattice.words) {
      if (to == p) arcs.push_back(graph.Add(kW, state[static_cast<size_t>(from)]));
    }
    state.push_back({arcs.size() == 1 ? arcs[0] : graph.Add(kS, arcs)});
    outputs.push_back(graph.Add(kLatticeO, state.back()));
  }
  return outputs;
}

}  // namespace

TypedGraph Chains(absl::Span<const std::string_view> words) {
  int32_t types = 0;
  for (const std::string_view word : words) {
    for (const char letter : word) types = std::max(types, letter - 'a' + 1);
  }
  TypedGraph graph(types);
  for (const std::string_view word : words) {
    Nodes last;
    for (const char letter : word) last = {graph.Add(letter - 'a', last)};
  }
  return graph;
}

int32_t ShortestSupersequence(absl::Span<const std::string_view> words) {
  using Places = std::vector<size_t>;
  std::set<Places> now = {Places(words.size(), 0)};
  for (int32_t length = 0;; ++length) {
    std::set<Places> next;
    for (const Places& places : now) {
      bool all = true;
      std::set<char> letters;
      for (size_t w = 0; w < words.size(); ++w) {
        if (places[w] == words[w].size()) continue;
        all = false;
        letters.insert(words[w][places[w]]);
      }
      if (all) return length;
      for (const char letter : letters) {
        Places after = places;
        for (size_t w = 0; w < words.size(); ++w) {
          if (after[w] < words[w].size() && words[w][after[w]] == letter) ++after[w];
        }
        next.insert(std::move(after));
      }
    }
    now = std::move(next);
  }
}

TypedGraph PerfectTree(int32_t levels) {
  TypedGraph graph(kTreeTypes);
  Nodes all, level;
  for (int32_t i = 0; i < 1 << levels; ++i) level.push_back(graph.Add(kL, {}));
  all = level;
  while (level.size() > 1) {
    Nodes above;
    for (size_t i = 0; i < level.size(); i += 2) {
      above.push_back(graph.Add(kI, {level[i], level[i + 1]}));
    }
    level = std::move(above);
    all.insert(all.end(), level.begin(), level.end());
  }
  graph.Add(kR, Outputs(graph, kO, all));
  return graph;
}

TypedGraph LeftComb(int32_t inner, bool outputs_at_nodes) {
  TypedGraph graph(kTreeTypes);
  Nodes all = {graph.Add(kL, {})};
  int32_t top = all[0];
  for (int32_t i = 0; i < inner; ++i) {
    all.push_back(graph.Add(kL, {}));
    top = graph.Add(kI, {top, all.back()});
    all.push_back(top);
  }
  graph.Add(kR, Outputs(graph, kO, outputs_at_nodes ? all : Nodes{top}));
  return graph;
}

TypedGraph RoleSwap(int32_t k) {
  TypedGraph graph(3);  // I, O, R
  const int32_t middle = ChainUnderOutputs(graph, k, 0, 1, {});
  ChainUnderOutputs(graph, k, 1, 0, {middle});
  return graph;
}

TypedGraph Lattices(absl::Span<const SmallLattice> lattices) {
  TypedGraph graph(kLatticeTypes);
  Nodes outputs;
  for (const SmallLattice& lattice : lattices) {
    const Nodes its = AddLattice(graph, lattice);
    outputs.insert(outputs.end(), its.begin(), its.end());
  }
  graph.Add(kLatticeR, outputs);
  return graph;
}

TypedGraph RandomGraph(std::mt19937_64& random, int32_t nodes, int32_t types) {
  constexpr int32_t kWindow = 5;
  TypedGraph graph(types);
  for (int32_t v = 0; v < nodes; ++v) {
    Nodes before;
    for (uint64_t links = random() % 3; links > 0 && v > 0; --links) {
      before.push_back(v - 1 - static_cast<int32_t>(random() % std::min<uint64_t>(kWindow, v)));
    }
    graph.Add(static_cast<int32_t>(random() % static_cast<uint64_t>(types)), before);
  }
  return graph;
}

}  // namespace cellbatch::offline_testing
