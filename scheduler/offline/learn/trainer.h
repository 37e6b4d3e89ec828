// A learner that cannot publish a bad table. It trains many: ED-Batch's Q-learning in each state encoding, with both
// bootstraps and several seeds, with and without saying what lowers the bound (policy/fsm_state.h); and tables made
// better by search, from nothing and from the best of those. All are then proved on graphs that none has seen, beside
// agenda, depth and LB-greedy, and what takes the fewest batches there is published: a table only if it is not worse
// than any of the three, and with Algorithm 1's choices wherever its own gain nothing (table_ties.h).
//
//   lessons --> tables --+--> proofs --> the best
//               the three +
//
// Work is counted in nodes replayed, not in seconds, so the same lessons and seed give the same table everywhere. One
// thread; some 25 ns a node.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_TRAINER_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_TRAINER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/policy/fsm_policy.h"
#include "scheduler/policy/policy_spec.h"

namespace cellbatch {

// A table, or one of the three that need none.
struct OrderCandidate {
  std::string name;  // "fsm base+lowering searched seed 1"; else "agenda", "depth", "lb_greedy"
  bool is_table = false;
  bool ties_by_chance = false;  // a table of Q-learning, or one that began with such
  StateEncoding encoding;
  std::vector<FsmTable::Rule> rules;
  int64_t episodes = 0;  // or tables tried
  // Batches in parts of the bound as it learned; of Q-learning on the first lesson, of search over all.
  std::vector<std::pair<int64_t, double>> curve;
  std::vector<int32_t> batches;  // on each proof
  double over_bound = 0;         // batches / bound, the mean over the proofs
};

// What serves it (policy_spec.h).
PolicySpec SpecOf(const OrderCandidate& candidate);

struct TrainingOptions {
  uint64_t seed = 1;
  int64_t most_nodes = 80'000'000;                      // replayed in all; half of it by search
  std::function<void(const OrderCandidate&)> progress;  // after each is proved; null: nobody asks
};

struct TrainingResult {
  OrderCandidate published;
  bool table_is_best = false;              // else `published` is one of the three
  std::vector<OrderCandidate> candidates;  // all, the three first
  std::vector<int32_t> proof_bounds;
  int64_t nodes = 0;
};

// REQUIRES: a lesson and a proof, all of the same types, no more than a state has room for.
TrainingResult TrainOrder(absl::Span<const Lesson> lessons, absl::Span<const Lesson> proofs,
                          const TrainingOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_TRAINER_H_
