#include "scheduler/offline/replay.h"

#include <algorithm>
#include <limits>

#include "cells/check.h"

namespace cellbatch {
namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

Replay::Replay(const GraphFacts& facts, absl::Span<const int32_t> priorities)
    : facts_(facts),
      views_(At(facts.graph.num_types())),
      ready_(views_.size()),
      waits_for_(At(facts.graph.size())),
      elders_(At(facts.graph.size())) {
  int32_t heights = 0;
  for (size_t t = 0; t < views_.size(); ++t) {
    ready_[t].reserve(At(facts.type_nodes[t]));
    batch_.reserve(std::max(batch_.capacity(), At(facts.type_nodes[t])));
    first_height_.push_back(heights);
    heights += facts.tallest[t] + 1;
    views_[t].type = CellTypeId(static_cast<int64_t>(t));
    views_[t].max_batch = std::numeric_limits<int32_t>::max();
    if (!priorities.empty()) views_[t].priority = priorities[t];
  }
  // `batch_` and each of `ready_` change places.
  for (std::vector<int32_t>& ready : ready_) ready.reserve(batch_.capacity());
  remaining_at_.resize(At(heights));
  ready_at_.resize(At(heights));
  ready_at_depth_.resize(views_.size() * At(facts.deepest + 1));
  Reset();
}

void Replay::Reset() {
  const TypedGraph& graph = facts_.graph;
  left_ = graph.size();
  batches_ = 0;
  elders_ = facts_.elders;
  std::fill(remaining_at_.begin(), remaining_at_.end(), 0);
  std::fill(ready_at_.begin(), ready_at_.end(), 0);
  std::fill(ready_at_depth_.begin(), ready_at_depth_.end(), 0);
  for (size_t t = 0; t < views_.size(); ++t) {
    views_[t].ready = 0;
    views_[t].nodes = TypeNodes{};
    views_[t].nodes.tallest = facts_.tallest[t];
    ready_[t].clear();
  }
  for (int32_t v = 0; v < graph.size(); ++v) {
    const int32_t type = graph.type(v);
    TypeNodes& nodes = views_[At(type)].nodes;
    ++nodes.remaining;
    nodes.remaining_depths += facts_.depth[At(v)];
    if (elders_[At(v)] == 0) ++nodes.heads;
    ++remaining_at_[At(first_height_[At(type)] + facts_.height[At(v)])];
    waits_for_[At(v)] = static_cast<int32_t>(graph.predecessors(v).size());
    if (waits_for_[At(v)] == 0) Push(v);
  }
  for (int32_t t = 0; t < graph.num_types(); ++t) {
    TypeNodes& nodes = views_[At(t)].nodes;
    nodes.total = nodes.remaining;
    nodes.total_depths = nodes.remaining_depths;
    Settle(t);
  }
}

absl::Span<const int32_t> Replay::Execute(const Choice& choice) {
  TakeBatch(choice);
  Check(!batch_.empty(), "a policy chose a type of which nothing is ready");
  for (const int32_t v : batch_) Remove(v);
  for (const int32_t v : batch_) Release(v);
  for (int32_t t = 0; t < facts_.graph.num_types(); ++t) Settle(t);
  left_ -= static_cast<int32_t>(batch_.size());
  ++batches_;
  return batch_;
}

void Replay::TakeBatch(const Choice& choice) {
  std::vector<int32_t>& ready = ready_[At(choice.type.value())];
  batch_.clear();
  if (choice.depth == Choice::kAnyDepth) {
    batch_.swap(ready);
    return;
  }
  size_t kept = 0;
  for (const int32_t v : ready) {
    if (facts_.depth[At(v)] == choice.depth) {
      batch_.push_back(v);
    } else {
      ready[kept++] = v;
    }
  }
  ready.resize(kept);
}

void Replay::Push(int32_t node) {
  const int32_t type = facts_.graph.type(node), depth = facts_.depth[At(node)];
  TypeView& view = views_[At(type)];
  ready_[At(type)].push_back(node);
  ++view.ready;
  view.nodes.ready_depths += depth;
  ++ready_at_[At(first_height_[At(type)] + facts_.height[At(node)])];
  ++ready_at_depth_[At(type) * At(facts_.deepest + 1) + At(depth)];
  int32_t& least = view.nodes.least_depth;
  if (least < 0 || depth < least) least = depth;
}

void Replay::Remove(int32_t node) {
  const int32_t type = facts_.graph.type(node), depth = facts_.depth[At(node)];
  const size_t height = At(first_height_[At(type)] + facts_.height[At(node)]);
  TypeView& view = views_[At(type)];
  --view.ready;
  --view.nodes.remaining;
  --view.nodes.heads;
  view.nodes.remaining_depths -= depth;
  view.nodes.ready_depths -= depth;
  --remaining_at_[height];
  --ready_at_[height];
  --ready_at_depth_[At(type) * At(facts_.deepest + 1) + At(depth)];
}

void Replay::Release(int32_t node) {
  for (const int32_t reader : facts_.successors[node]) {
    if (--waits_for_[At(reader)] == 0) Push(reader);
  }
  TypeNodes& nodes = views_[At(facts_.graph.type(node))].nodes;
  for (const int32_t heir : facts_.heirs[node]) {
    if (--elders_[At(heir)] == 0) ++nodes.heads;
  }
}

void Replay::Settle(int32_t type) {
  TypeView& view = views_[At(type)];
  TypeNodes& nodes = view.nodes;
  const size_t heights = At(first_height_[At(type)]);
  while (nodes.tallest > 0 && remaining_at_[heights + At(nodes.tallest)] == 0) --nodes.tallest;
  nodes.tops = remaining_at_[heights + At(nodes.tallest)];
  nodes.ready_tops = ready_at_[heights + At(nodes.tallest)];
  const int32_t* const at_depth = &ready_at_depth_[At(type) * At(facts_.deepest + 1)];
  if (view.ready == 0) {
    nodes.least_depth = -1;
    nodes.at_least_depth = 0;
    return;
  }
  while (at_depth[nodes.least_depth] == 0) ++nodes.least_depth;
  nodes.at_least_depth = at_depth[nodes.least_depth];
}

ReplayReport RunClosed(const GraphFacts& facts, const Policy& policy,
                       absl::Span<const int32_t> priorities) {
  ReplayReport report;
  Replay replay(facts, priorities);
  while (!replay.done()) {
    const std::optional<Choice> choice = policy.Choose(replay.frontier());
    Check(choice.has_value(), "a policy chose nothing, and nodes are ready");
    const absl::Span<const int32_t> batch = replay.Execute(*choice);
    report.schedule.emplace_back(batch.begin(), batch.end());
  }
  report.batches = replay.batches();
  if (report.batches > 0) {
    report.mean_fill = static_cast<double>(facts.graph.size()) / report.batches;
  }
  return report;
}

ReplayReport RunClosedBackwards(const TypedGraph& graph, const Policy& policy,
                                absl::Span<const int32_t> priorities) {
  const TypedGraph turned = graph.Reversed();
  const GraphFacts facts(turned);
  ReplayReport report = RunClosed(facts, policy, priorities);
  std::reverse(report.schedule.begin(), report.schedule.end());
  for (std::vector<int32_t>& batch : report.schedule) {
    for (int32_t& node : batch) node = graph.size() - 1 - node;
  }
  return report;
}

}  // namespace cellbatch
