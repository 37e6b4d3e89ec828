#include "scheduler/offline/lower_bound.h"

#include <algorithm>
#include <vector>

namespace cellbatch {

int32_t LowerBound(const TypedGraph& graph) {
  int32_t bound = 0;
  std::vector<int32_t> on_path(static_cast<size_t>(graph.size()));
  for (int32_t type = 0; type < graph.num_types(); ++type) {
    int32_t most = 0;
    for (int32_t v = 0; v < graph.size(); ++v) {
      int32_t before = 0;
      for (const int32_t p : graph.predecessors(v)) {
        before = std::max(before, on_path[static_cast<size_t>(p)]);
      }
      on_path[static_cast<size_t>(v)] = before + (graph.type(v) == type ? 1 : 0);
      most = std::max(most, on_path[static_cast<size_t>(v)]);
    }
    bound += most;
  }
  return bound;
}

}  // namespace cellbatch
