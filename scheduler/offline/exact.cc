#include "scheduler/offline/exact.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "cells/check.h"

namespace cellbatch {
namespace {

using Nodes = uint32_t;  // a set, a bit a node

class Search {
 public:
  explicit Search(const TypedGraph& graph)
      : graph_(graph), before_(static_cast<size_t>(graph.size()), 0) {
    Check(graph.size() <= 32, "the exact search is for at most 32 nodes");
    for (int32_t v = 0; v < graph.size(); ++v) {
      for (const int32_t p : graph.predecessors(v)) before_[static_cast<size_t>(v)] |= Bit(p);
    }
  }

  int32_t Run() {
    for (int32_t bound = Bound(0);; ++bound) {
      fewest_.clear();
      if (Reaches(0, 0, bound)) return bound;
    }
  }

 private:
  static Nodes Bit(int32_t node) { return Nodes{1} << node; }

  // Whether the rest can be done within `bound` batches in all.
  bool Reaches(Nodes done, int32_t steps, int32_t bound) {
    if (done == All()) return true;
    if (steps + Bound(done) > bound) return false;
    const auto [seen, fresh] = fewest_.emplace(done, steps);
    if (!fresh && seen->second <= steps) return false;
    seen->second = steps;
    for (int32_t type = 0; type < graph_.num_types(); ++type) {
      const Nodes batch = Ready(done, type);
      if (batch != 0 && Reaches(done | batch, steps + 1, bound)) return true;
    }
    return false;
  }

  Nodes All() const { return graph_.size() == 32 ? ~Nodes{0} : Bit(graph_.size()) - 1; }

  Nodes Ready(Nodes done, int32_t type) const {
    Nodes ready = 0;
    for (int32_t v = 0; v < graph_.size(); ++v) {
      const Nodes before = before_[static_cast<size_t>(v)];
      if ((done & Bit(v)) == 0 && graph_.type(v) == type && (before & ~done) == 0) ready |= Bit(v);
    }
    return ready;
  }

  // The lower bound of what is not done.
  int32_t Bound(Nodes done) const {
    int32_t bound = 0;
    int32_t on_path[32];
    for (int32_t type = 0; type < graph_.num_types(); ++type) {
      int32_t most = 0;
      for (int32_t v = 0; v < graph_.size(); ++v) {
        on_path[v] = 0;
        if ((done & Bit(v)) != 0) continue;  // so is all before it
        for (const int32_t p : graph_.predecessors(v))
          on_path[v] = std::max(on_path[v], on_path[p]);
        if (graph_.type(v) == type) ++on_path[v];
        most = std::max(most, on_path[v]);
      }
      bound += most;
    }
    return bound;
  }

  const TypedGraph& graph_;
  std::vector<Nodes> before_;
  std::unordered_map<Nodes, int32_t> fewest_;  // batches with which a state was reached
};

}  // namespace

int32_t FewestBatches(const TypedGraph& graph) { return Search(graph).Run(); }

}  // namespace cellbatch
