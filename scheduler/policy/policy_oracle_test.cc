// Claims about how many batches each policy makes of small graphs that all lie ready at once: exactly as many as the
// independent reference implementation did from which the numbers come (shortest common supersequences, trees with an
// output at every node, lattices, and networks in series whose types swap roles). The frontier is counted here anew for
// every batch, from the definitions.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/policy/agenda_policy.h"
#include "scheduler/policy/depth_policy.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "scheduler/policy/sufficient_policy.h"

namespace cellbatch {
namespace {

// Nodes come after what they read. A type is a letter; ids go by letter.
struct Graph {
  std::string types;
  std::vector<std::vector<int>> reads;

  int Add(char type, std::vector<int> from = {}) {
    types.push_back(type);
    reads.push_back(std::move(from));
    return static_cast<int>(types.size()) - 1;
  }
  int size() const { return static_cast<int>(types.size()); }
};

size_t At(int i) { return static_cast<size_t>(i); }

class Batching {
 public:
  explicit Batching(const Graph& graph)
      : graph_(graph), letters_(graph.types), gone_(graph.types.size()) {
    std::sort(letters_.begin(), letters_.end());
    letters_.erase(std::unique(letters_.begin(), letters_.end()), letters_.end());
    for (int v = 0; v < graph.size(); ++v) {
      int depth = 0;
      for (const int u : graph.reads[At(v)]) depth = std::max(depth, depth_[At(u)] + 1);
      depth_.push_back(depth);
    }
  }

  int Count(const Policy& policy) {
    int batches = 0;
    while (std::find(gone_.begin(), gone_.end(), false) != gone_.end()) {
      const std::optional<Choice> choice = policy.Choose(Look());
      if (!choice) return -1;
      const char type = letters_[At(choice->type.value())];
      std::vector<int> batch;
      for (int v = 0; v < graph_.size(); ++v) {
        const bool at_depth = choice->depth == Choice::kAnyDepth || choice->depth == depth_[At(v)];
        if (graph_.types[At(v)] == type && at_depth && IsReady(v)) batch.push_back(v);
      }
      if (batch.empty()) return -1;
      for (const int v : batch) gone_[At(v)] = true;
      ++batches;
    }
    return batches;
  }

 private:
  bool IsReady(int v) const {
    const std::vector<int>& reads = graph_.reads[At(v)];
    return !gone_[At(v)] &&
           std::all_of(reads.begin(), reads.end(), [this](int u) { return gone_[At(u)]; });
  }

  // Of nodes that remain: the most of v's type on a path that begins with v.
  int Height(int v) const {
    std::vector<int> best(At(graph_.size()), -1);  // on a path from v to there, v not counted
    best[At(v)] = 1;
    int height = 1;
    for (int w = v + 1; w < graph_.size(); ++w) {
      for (const int u : graph_.reads[At(w)]) {
        if (best[At(u)] < 0) continue;
        const int here = best[At(u)] + (graph_.types[At(w)] == graph_.types[At(v)] ? 1 : 0);
        best[At(w)] = std::max(best[At(w)], here);
      }
      height = std::max(height, best[At(w)]);
    }
    return height;
  }

  bool HasAncestorOfItsType(int v, int below) const {
    for (const int u : graph_.reads[At(below)]) {
      if (gone_[At(u)]) continue;
      if (graph_.types[At(u)] == graph_.types[At(v)] || HasAncestorOfItsType(v, u)) return true;
    }
    return false;
  }

  Frontier Look() {
    views_.assign(letters_.size(), {});
    for (size_t t = 0; t < letters_.size(); ++t) {
      TypeView& view = views_[t];
      TypeNodes& nodes = view.nodes;
      view.type = CellTypeId(static_cast<int64_t>(t));
      for (int v = 0; v < graph_.size(); ++v) {
        if (graph_.types[At(v)] != letters_[t]) continue;
        ++nodes.total;
        nodes.total_depths += depth_[At(v)];
        if (gone_[At(v)]) continue;
        ++nodes.remaining;
        nodes.remaining_depths += depth_[At(v)];
        if (!HasAncestorOfItsType(v, v)) ++nodes.heads;
        const int height = Height(v);
        if (height > nodes.tallest) nodes.tops = nodes.ready_tops = 0;
        nodes.tallest = std::max(nodes.tallest, height);
        if (height == nodes.tallest) ++nodes.tops;
        if (!IsReady(v)) continue;
        ++view.ready;
        if (height == nodes.tallest) ++nodes.ready_tops;
        const bool first = nodes.least_depth < 0 || depth_[At(v)] < nodes.least_depth;
        if (first) nodes.least_depth = depth_[At(v)];
      }
    }
    return views_;
  }

  const Graph& graph_;
  std::string letters_;
  std::vector<bool> gone_;
  std::vector<int> depth_;
  std::vector<TypeView> views_;
};

Graph Chains(const std::vector<std::string>& words) {
  Graph g;
  for (const std::string& word : words) {
    int last = -1;
    for (const char type : word) {
      last = g.Add(type, last < 0 ? std::vector<int>{} : std::vector<int>{last});
    }
  }
  return g;
}

void AddOutputs(Graph& g, const std::vector<int>& nodes) {
  std::vector<int> outputs;
  for (const int v : nodes) outputs.push_back(g.Add('O', {v}));
  g.Add('R', outputs);
}

Graph PerfectTree() {
  Graph g;
  for (int i = 0; i < 4; ++i) g.Add('L');
  g.Add('I', {0, 1});
  g.Add('I', {2, 3});
  g.Add('I', {4, 5});
  AddOutputs(g, {0, 1, 2, 3, 4, 5, 6});
  return g;
}

Graph LeftComb(int inner, bool all_outputs) {
  Graph g;
  std::vector<int> nodes = {g.Add('L')};
  for (int i = 0; i < inner; ++i) {
    const int spine = nodes.back();
    nodes.push_back(g.Add('L'));
    nodes.push_back(g.Add('I', {spine, nodes.back()}));
  }
  AddOutputs(g, all_outputs ? nodes : std::vector<int>{nodes.back()});
  return g;
}

Graph RoleSwap(int k) {
  Graph g;
  int last = -1;
  for (const auto& [chain, leaf] : {std::pair('I', 'O'), std::pair('O', 'I')}) {
    std::vector<int> leaves;
    for (int i = 0; i < k; ++i) {
      last = g.Add(chain, last < 0 ? std::vector<int>{} : std::vector<int>{last});
      leaves.push_back(g.Add(leaf, {last}));
    }
    last = g.Add('R', leaves);
  }
  return g;
}

using Word = std::pair<int, int>;

Graph Lattices(int positions, const std::vector<std::vector<Word>>& words_of) {
  Graph g;
  std::vector<int> outputs;
  for (const std::vector<Word>& words : words_of) {
    std::vector<int> state = {-1};
    outputs.push_back(g.Add('O'));
    for (int p = 1; p < positions; ++p) {
      const auto from = [&](int s) {
        return state[At(s)] < 0 ? std::vector<int>{} : std::vector<int>{state[At(s)]};
      };
      std::vector<int> arriving = {g.Add('C', from(p - 1))};
      for (const auto& [begin, end] : words) {
        if (end == p) arriving.push_back(g.Add('W', from(begin)));
      }
      state.push_back(arriving.size() > 1 ? g.Add('S', arriving) : arriving[0]);
      outputs.push_back(g.Add('O', {state.back()}));
    }
  }
  g.Add('R', outputs);
  return g;
}

struct Expected {
  const char* name;
  Graph graph;
  int depth, agenda, agenda_remaining, sufficient, lb_greedy;
};

TEST(PolicyOracleTest, EveryPolicyMakesExactlyAsManyBatchesAsTheReference) {
  const std::vector<Expected> rows = {
      {"ab ba", Chains({"ab", "ba"}), 4, 3, 3, 3, 3},
      {"abab baba", Chains({"abab", "baba"}), 8, 5, 5, 5, 5},
      {"aab abb bba", Chains({"aab", "abb", "bba"}), 6, 5, 5, 5, 5},
      {"abc bca cab", Chains({"abc", "bca", "cab"}), 9, 5, 5, 5, 5},
      {"abcd dcba", Chains({"abcd", "dcba"}), 8, 7, 7, 7, 7},
      {"abba baab aabb", Chains({"abba", "baab", "aabb"}), 8, 7, 7, 6, 6},
      {"abcabc bacbac", Chains({"abcabc", "bacbac"}), 10, 8, 8, 8, 8},
      {"abacb cbbac acabb", Chains({"abacb", "cbbac", "acabb"}), 11, 9, 9, 8, 8},
      {"aaaa bbbb", Chains({"aaaa", "bbbb"}), 8, 8, 8, 8, 8},
      {"perfect tree", PerfectTree(), 7, 5, 6, 5, 5},
      {"left comb of 3", LeftComb(3, true), 9, 9, 7, 6, 6},
      {"left comb of 4", LeftComb(4, true), 11, 11, 9, 7, 7},
      {"left comb of 3, root", LeftComb(3, false), 6, 6, 6, 6, 6},
      {"role swap 2", RoleSwap(2), 10, 9, 9, 8, 8},
      {"role swap 3", RoleSwap(3), 14, 12, 13, 10, 10},
      {"role swap 4", RoleSwap(4), 18, 15, 16, 12, 12},
      {"lattice", Lattices(5, {{{0, 2}, {2, 4}}}), 14, 12, 12, 10, 10},
      {"two lattices", Lattices(4, {{{0, 2}}, {{1, 3}}}), 14, 10, 10, 9, 9},
  };
  for (const Expected& row : rows) {
    const auto count = [&](const Policy& policy) { return Batching(row.graph).Count(policy); };
    EXPECT_EQ(count(DepthPolicy()), row.depth) << row.name;
    EXPECT_EQ(count(AgendaPolicy(AgendaMean::kWholeGraph)), row.agenda) << row.name;
    EXPECT_EQ(count(AgendaPolicy(AgendaMean::kRemaining)), row.agenda_remaining) << row.name;
    EXPECT_EQ(count(SufficientPolicy()), row.sufficient) << row.name;
    EXPECT_EQ(count(LbGreedyPolicy()), row.lb_greedy) << row.name;
  }
}

}  // namespace
}  // namespace cellbatch
