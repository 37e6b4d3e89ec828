// One request in the scheduler: its graph, where it is in its life, and its answer.
//
//                  +---------- paused <--------+    between two pieces of a graph that grows:
//                  v                            |    the taker's, from Take (kPiece) to Extended
//   waiting ----> running ----> draining -------+----> done
//      |             |             ^
//      +-- cancelled / expired / device failed: what is submitted drains, then done
//
// Made and filled by the thread that received it; the scheduler's alone from Submit until Take
// hands it back. Destroyed by whoever took it. With `stream`, Take tells of it meanwhile, too: then the
// words that are written so far may be read, and nothing else.
#ifndef CELLBATCH_SCHEDULER_REQUEST_H_
#define CELLBATCH_SCHEDULER_REQUEST_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "cells/recycled.h"
#include "scheduler/run_state.h"

namespace cellbatch {

using OutboxId = Id<struct OutboxTag>;

// Names a submitted request until it is answered, and never another one after that: slot and
// generation. News for an id that is gone is ignored.
struct RequestId {
  uint32_t slot = 0;
  uint32_t generation = 0;  // 0: none
  friend bool operator==(const RequestId&, const RequestId&) = default;
};

// Steady-clock nanoseconds; 0: did not happen. queue = first_task_start - submitted,
// compute = last_task_end - first_task_start.
struct RequestTimes {
  int64_t received = 0;          // caller's: first byte known to the server
  int64_t submitted = 0;         // caller's: just before Submit
  int64_t deadline = 0;          // caller's, who sees to it (Notify): for records only
  int64_t first_task_start = 0;  // device started the first task with a node of it
  int64_t last_task_end = 0;     // device finished the last one
};

struct Request : Recycled<Request> {
  // The caller's.
  uint64_t tag = 0;  // untouched
  std::shared_ptr<const Model> model;
  CellGraph graph;  // sealed; its tensors() are the answer
  OutboxId outbox{0};
  // Words of the graph's first stopping chain are told of as they are written (Delivery::kWords). A
  // chain without an end of its own streams with a Stop at a value that no word has.
  bool stream = false;
  int32_t priority = 0;  // 1, the most urgent, to Model::priority_levels; 0: the model's default
  RequestTimes times;

  // The scheduler's answer. OK: every returned tensor is complete. CANCELLED, DEADLINE_EXCEEDED (as
  // notified), INTERNAL (device failed), UNAVAILABLE (scheduler stopping).
  absl::Status status;
  int64_t nodes_executed = 0;
  int64_t overrun_nodes = 0;  // of them, those of stopping chains past their stop

  RunState run;  // the scheduler's own bookkeeping
};

// What Take hands over. Words that came meanwhile go together, so counts may jump.
struct Delivery {
  enum class Kind : uint8_t {
    kWords,  // `request` runs on, and is read only: its first stopping chain's words [0, words)
    kPiece,  // every node of `request` is done, and its graph grows: the taker's until Extended
    kDone,   // `done` is answered, and the taker's
  };
  Kind kind = Kind::kDone;
  // Written and readable (in the tensors that return them) of the first stopping chain (of the latest
  // piece); the word that ended it is one of them. A request that is done has no more than these.
  int32_t words = 0;
  Request* request = nullptr;
  std::unique_ptr<Request> done;  // null but for kDone; then it is what `request` points to
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_REQUEST_H_
