// Makes a table better by trying: another action in one state, all lessons replayed, kept where they take no more
// batches (in parts of their lower bounds). Starts from rules or from none; a state met for the first time gets what
// LB-greedy does there. Where Q-learning estimates what a choice is worth, this measures it; together they find what
// neither does alone.
//
// Deterministic under a seed. Stops when its budget of nodes is spent, when a table reaches every bound, or when every
// single change has been tried in vain.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_SEARCH_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_SEARCH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/policy/fsm_policy.h"

namespace cellbatch {

struct SearchPoint {
  int64_t trials;
  double batches;  // in parts of the bounds, the mean over the lessons, of the table as it was then
};

struct TableSearchResult {
  std::vector<FsmTable::Rule> rules;  // of the states that the lessons come to
  std::vector<SearchPoint> curve;     // the first table, and every better one
  int64_t trials = 0, nodes = 0;      // tables tried; nodes replayed for it
};

// REQUIRES: a lesson, all of the same types.
TableSearchResult SearchTable(const StateEncoding& encoding, absl::Span<const FsmTable::Rule> from,
                              absl::Span<const Lesson> lessons, uint64_t seed, int64_t most_nodes);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_SEARCH_H_
