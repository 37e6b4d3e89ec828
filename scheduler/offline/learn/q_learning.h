// Tabular Q-learning of an order, as ED-Batch does it (section 2; constants of its source): episodes over one graph, the
// reward of a batch
//
//   -1 + alpha * |ready of the type| / |frontier of the type's own graph|        alpha = 1: 0 where nothing is held back
//
// returned over 10 steps, an exploring choice in 0.5, 0.45, ... 0.05 of the decisions, and every 50 episodes a look at
// what the table does when it does not explore. The best of those tables is kept; a table within 1 % of the lower bound
// ends the learning.
//
// The source's bootstrap clips at 0, and as values are never above 0 that makes it none at all; sometimes one is better
// and sometimes the other, so it is an option. Deterministic under a seed; one thread; allocates for new states only.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_LEARNING_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_LEARNING_H_

#include <cstdint>
#include <vector>

#include "scheduler/offline/graph_facts.h"
#include "scheduler/policy/fsm_policy.h"

namespace cellbatch {

struct QLearningOptions {
  StateEncoding encoding;
  uint64_t seed = 1;
  bool clipped = true;  // the source's bootstrap; false: the value of the state reached
  double learning_rate = 0.4, alpha = 1, exploration = 0.5, exploration_falls_by = 0.9,
         least_exploration = 0.05;
  int steps = 10, episodes = 1000, evaluate_every = 50;
  double near_enough = 1.01;  // of the lower bound
};

struct LearningPoint {
  int32_t episodes, batches;  // of the table as it was then
};

struct QLearningResult {
  std::vector<FsmTable::Rule> rules;  // of the best table seen
  int32_t batches = 0;                // with it; states it does not have by LB-greedy
  int32_t episodes = 0;
  std::vector<LearningPoint> curve;
};

// `bound`: the graph's lower bound. O(episodes x (nodes + arrows)).
QLearningResult LearnByQ(const GraphFacts& facts, int32_t bound, const QLearningOptions& options);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_Q_LEARNING_H_
