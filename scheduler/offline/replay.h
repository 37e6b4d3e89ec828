// The closed loop of ED-Batch (Alg. 1): a fixed graph, batch after batch, until nothing is left. Readiness is node by
// node, a batch is every ready node of the chosen type (and depth, where the policy names one), and nothing of the
// server's stands around the policy: no batch limit, no guard, no join rule.
//
//   while nodes are left:  choice = policy.Choose(frontier)   run those nodes as one batch   release their readers
//
// What a policy sees is kept up node by node in O(1) an arrow, all of TypeNodes included, so a replay costs O(nodes +
// arrows) and a decision a batch. Deterministic. `Reset` starts over without allocating: a learner runs thousands.
// One thread; the facts are borrowed.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_REPLAY_H_
#define CELLBATCH_SCHEDULER_OFFLINE_REPLAY_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/graph_facts.h"
#include "scheduler/offline/schedule_check.h"
#include "scheduler/policy/policy.h"

namespace cellbatch {

class Replay {
 public:
  // `priorities`: by type, as models give them; empty: all alike.
  explicit Replay(const GraphFacts& facts, absl::Span<const int32_t> priorities = {});
  void Reset();

  bool done() const { return left_ == 0; }
  Frontier frontier() const { return views_; }
  // All ready nodes of the type; where the choice names a depth, those of that depth. Valid until the next one. REQUIRES:
  // there are some.
  absl::Span<const int32_t> Execute(const Choice& choice);
  int32_t batches() const { return batches_; }

 private:
  void TakeBatch(const Choice& choice);
  void Push(int32_t node);    // it became ready
  void Remove(int32_t node);  // it runs
  void Release(int32_t node);
  void Settle(int32_t type);  // what is read off the histograms

  const GraphFacts& facts_;
  std::vector<TypeView> views_;
  std::vector<std::vector<int32_t>> ready_;  // by type
  std::vector<int32_t> batch_;
  std::vector<int32_t> waits_for_, elders_;  // by node: predecessors not run; those of its own type
  // Histograms, type by type: of what remains and what is ready by height, of what is ready by depth.
  std::vector<int32_t> first_height_;  // by type: where its heights begin
  std::vector<int32_t> remaining_at_, ready_at_, ready_at_depth_;
  int32_t left_ = 0, batches_ = 0;
};

struct ReplayReport {
  int32_t batches = 0;
  double mean_fill = 0;  // nodes a batch
  Schedule schedule;
};

// One replay from beginning to end.
ReplayReport RunClosed(const GraphFacts& facts, const Policy& policy,
                       absl::Span<const int32_t> priorities = {});

// The same on the graph turned round, and its batches from the last to the first: a schedule of `graph`.
ReplayReport RunClosedBackwards(const TypedGraph& graph, const Policy& policy,
                                absl::Span<const int32_t> priorities = {});

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_REPLAY_H_
