// What one worker may run, type by type: all that a policy knows. Kept up as requests join, tasks are submitted, chains
// stop or give way, requests are cancelled and queues are stolen from; Manager::CheckInvariants counts it anew.
//
// What follows from single nodes' depth and height costs something for each of them: it is kept only in lanes whose
// policy says that it reads it.
#ifndef CELLBATCH_SCHEDULER_POLICY_FRONTIER_H_
#define CELLBATCH_SCHEDULER_POLICY_FRONTIER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "cells/ids.h"

namespace cellbatch {

// Each includes those before it.
enum class FrontierNeeds : uint8_t {
  kReady,    // all but TypeNodes
  kHeights,  // and `remaining`, `tallest`, `tops`, `ready_tops`
  kNodes,    // and all others but `heads`
  kHeads,    // and `heads`
};

// Depth: the longest path from a source, in nodes. Height: the most nodes of its own type on one path that begins with
// it (1: none follows), nodes of other types between them not counted.
struct TypeNodes {
  int64_t remaining = 0;         // not submitted yet, of all of the lane's requests, on all workers
  int64_t remaining_depths = 0;  // the sum of their depths
  // Submitted or not, of the requests that have anything left to submit; the sum of their depths.
  int64_t total = 0, total_depths = 0;
  int64_t ready_depths = 0;  // of those that are ready on this worker
  // Of those, the least deep: that depth (-1: nothing is ready), and how many lie there. A lane keeps them up where its
  // policy picks depths, and counts what lies deeper than kMostDepth as lying there (ready/ready_entry.h).
  int32_t least_depth = -1;
  int64_t at_least_depth = 0;
  // The tops of the tallest: among the first nodes of what remains, those of the greatest height.
  int32_t tallest = 0;     // that height; 0: nothing remains
  int64_t tops = 0;        // how many there are, on all workers
  int64_t ready_tops = 0;  // of them, ready on this worker
  // Of those that remain, the ones that follow on no other of their type that remains: the frontier of the type's own
  // graph, |Frontier(G^a)| in ED-Batch. Never fewer than are ready; as many, if no other type holds any of them up.
  int64_t heads = 0;
};

struct TypeView {
  CellTypeId type;
  int32_t ready = 0;            // nodes this worker could put into a task; a chain counts as one
  int32_t tasks_in_flight = 0;  // of this type, submitted to this worker and not done
  int32_t max_batch = 1;
  int32_t priority = 0;
  int32_t min_batch = 1;
  int32_t given_way = 0;  // of `ready`: chains that ran already, and wait for another turn
  int64_t waited =
      0;  // tasks of the lane on this worker since one of this type; 0: nothing is ready
  // Tasks of the type on this worker in a row that left ready nodes behind for their depth (Policy::picks_depth).
  int64_t narrow_tasks = 0;
  TypeNodes nodes;  // as far as FrontierNeeds says

  // As if none of it were ready here.
  void Hide() {
    ready = given_way = 0;
    waited = 0;
    nodes.ready_depths = nodes.at_least_depth = nodes.ready_tops = 0;
    nodes.least_depth = -1;
  }
};

// By type: the one of type t is [t].
using Frontier = absl::Span<const TypeView>;

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_POLICY_FRONTIER_H_
