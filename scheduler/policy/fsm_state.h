// What a learned FSM sees of a frontier (ED-Batch, section 2): which types have anything ready, in one of three
// encodings, and, because no such state can tell two networks in series apart whose types have swapped roles (Appendix
// A.4), as an option how far the running requests have come. Another option says more, and what it says is why lattices
// need a fifth fewer batches than the paper's states allow: of which ready types a batch would lower the lower bound
// (all tops of the tallest are ready; LB-greedy's question). It solves Appendix A.4, too, and needs heights.
//
//   kBase   the types, by id                                 {0 2 3}
//   kMax    the same, and the one with most ready nodes      {0 2 3} 2
//   kSort   the types, most ready nodes first                {2 0 3}
//   lowering: beside any of these                            {2 0 3} of which {0}
//   fill n: beside any of these, of which types at least one n-th of the largest batch is ready
//                                                            {2 0 3} of which {2}
//
// The last is for serving, where a batch is worth its nodes as well as its place in the graph: whether to run few nodes
// now or to let more of them gather is a question of how many there are.
//
// Equal counts go by id (the paper's code leaves them to its library's sort). A state is a key of three words, so that
// making and comparing one costs a few nanoseconds and allocates nothing:
//
//   words[0]  phase : 4 | type + 1 : 5, twelve times, the first in the lowest bits; 0: none
//   words[1]              type + 1 : 5, twelve more
//   words[2]  a bit a type: it is ready and would lower the bound; from bit 32 on: that part of a batch is ready
#ifndef CELLBATCH_SCHEDULER_POLICY_FSM_STATE_H_
#define CELLBATCH_SCHEDULER_POLICY_FSM_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/ids.h"
#include "scheduler/policy/frontier.h"

namespace cellbatch {

struct StateEncoding {
  enum class Kind : uint8_t { kBase, kMax, kSort };

  Kind kind = Kind::kSort;
  // Into so many equal parts the way from nothing submitted to everything is cut; 1: it is not looked at.
  int phases = 1;
  bool lowering = false;  // whether it says of which types a batch would lower the lower bound
  int fill = 0;  // 0: it does not say how many are ready; else of which types max_batch / fill are

  // kMax has a type twice; of more phases a key has no room.
  static constexpr int kMostTypes = 23, kMostPhases = 16, kMostFill = 4096;

  friend bool operator==(const StateEncoding&, const StateEncoding&) = default;
};

struct StateKey {
  uint64_t words[3] = {};

  bool empty() const { return (words[0] & ~(15ull << 60)) == 0; }  // nothing is ready
  friend bool operator==(const StateKey&, const StateKey&) = default;
};

// REQUIRES: at most kMostTypes types, 1 <= phases <= kMostPhases. O(ready types squared), for there are few.
StateKey StateOf(const StateEncoding& encoding, Frontier frontier);

// For files and people. `types` as above, of kMax with the last one twice; `lowering`, `filled`: of those the ones that
// would lower the bound, and that fill their part of a batch, by id. INVALID_ARGUMENT: no state looks like that.
absl::StatusOr<StateKey> MakeState(const StateEncoding& encoding,
                                   absl::Span<const CellTypeId> types, int phase,
                                   absl::Span<const CellTypeId> lowering = {},
                                   absl::Span<const CellTypeId> filled = {});
std::vector<CellTypeId> TypesOf(const StateKey& state);
std::vector<CellTypeId> LoweringOf(const StateKey& state);
std::vector<CellTypeId> FilledOf(const StateKey& state);
int PhaseOf(const StateKey& state);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_FSM_STATE_H_
