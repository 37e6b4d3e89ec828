#include "scheduler/offline/schedule_check.h"

#include <fmt/format.h>

namespace cellbatch {

std::string FaultOf(const TypedGraph& graph, const Schedule& schedule) {
  constexpr size_t kNever = ~size_t{0};
  std::vector<size_t> batch_of(static_cast<size_t>(graph.size()), kNever);
  for (size_t k = 0; k < schedule.size(); ++k) {
    if (schedule[k].empty()) return fmt::format("batch {} is empty", k);
    for (const int32_t v : schedule[k]) {
      if (v < 0 || v >= graph.size()) return fmt::format("batch {}: there is no node {}", k, v);
      size_t& batch = batch_of[static_cast<size_t>(v)];
      if (batch != kNever) return fmt::format("node {} is in batches {} and {}", v, batch, k);
      batch = k;
      if (graph.type(v) != graph.type(schedule[k].front())) {
        return fmt::format("batch {} has nodes of types {} and {}", k,
                           graph.type(schedule[k].front()), graph.type(v));
      }
    }
  }
  for (int32_t v = 0; v < graph.size(); ++v) {
    const size_t batch = batch_of[static_cast<size_t>(v)];
    if (batch == kNever) return fmt::format("node {} is in no batch", v);
    for (const int32_t p : graph.predecessors(v)) {
      const size_t before = batch_of[static_cast<size_t>(p)];
      if (before == kNever || before >= batch) {
        return fmt::format("node {} of batch {} reads node {}, which is not in an earlier one", v,
                           batch, p);
      }
    }
  }
  return "";
}

}  // namespace cellbatch
