// The machine that a table is: which state followed which as it was replayed, for a drawing.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_LEARN_MACHINE_H_
#define CELLBATCH_SCHEDULER_OFFLINE_LEARN_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/offline/learn/lessons.h"
#include "scheduler/policy/fsm_policy.h"

namespace cellbatch {

struct MachineState {
  StateKey state;
  CellTypeId action;
  bool learned =
      true;  // else the table does not have it, and `action` is what LB-greedy did there last
  int64_t batches = 0;  // that were decided in it
};

struct Machine {
  std::vector<MachineState> states;                    // in the order in which they were first seen
  std::map<std::pair<size_t, size_t>, int64_t> moves;  // from, to; to states.size(): all is done
};

Machine TraceMachine(const FsmTable& table, absl::Span<const Lesson> lessons);

// Graphviz. A state's box says which types are ready, * at those that would lower the bound, and which runs; an arrow how
// often. `types`: names by id.
std::string MachineAsDot(const Machine& machine, absl::Span<const std::string> types);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_LEARN_MACHINE_H_
