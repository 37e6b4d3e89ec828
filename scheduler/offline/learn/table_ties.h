// What a table says where it gains nothing. Q-learning leaves that to chance: of a fixed set of requests two choices may make
// as few batches, and where others keep joining one of them serves and the other does not. (Translation: bridges or encoders
// first, of all three types ready; with bridges first p99 was 1.4 and 1.5 times Algorithm 1's at 60 and 90 % load.)
//
// So a choice that brings no batch less than Algorithm 1's is Algorithm 1's, the first type that is ready: a table differs
// from it where that was learned, and nowhere else. Pure; some 25 ns a node and state that differs.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_TIES_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_TIES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/policy/fsm_policy.h"

namespace cellbatch {

struct SettledTable {
  std::vector<FsmTable::Rule> rules;  // as many, of the same states
  int64_t nodes = 0;                  // replayed
};

// On no lesson more batches than before. REQUIRES: rules that are a table.
SettledTable SettleTies(const StateEncoding& encoding, std::vector<FsmTable::Rule> rules,
                        absl::Span<const Lesson> lessons);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_TABLE_TIES_H_
