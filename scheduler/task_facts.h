// What a task that was formed means for the requests in it. The batch former reports it, and changes no request;
// the request processor applies it once the task is submitted (Submitted).
//
//   started    its first node is in the task, and the copies of its inputs
//   entered    a chain that runs from this task on, in every task of its queue
//   partly     the head of the queue, of which more nodes stay behind
//   ended      its last node is in the task: readers may follow
//   awaiting   its last node is in the task, and the words decide where it stopped
//   stepped    a chain of which one more node is in the task, and which goes back to the queue (policies that pick depths)
//   gave_way   a chain that ran before this task, and leaves its place to who waits (SchedulerOptions)
#ifndef CELLBATCH_SCHEDULER_TASK_FACTS_H_
#define CELLBATCH_SCHEDULER_TASK_FACTS_H_

#include <cstdint>
#include <vector>

#include "scheduler/ready/ready_entry.h"

namespace cellbatch {

struct TaskFacts {
  // A subgraph, and how many of its nodes were submitted by now.
  struct Reached {
    ReadyEntry entry;
    int32_t nodes;
  };

  // For tasks of so many nodes: then filling them allocates nothing.
  explicit TaskFacts(int batch_limit);
  void Clear();

  std::vector<RequestBlock*> started;
  std::vector<ReadyEntry> entered, ended, awaiting;
  Reached partly;  // no record: none
  std::vector<Reached> gave_way, stepped;
  uint32_t gave_way_after = 0;  // the last task that those were in, on this worker
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_TASK_FACTS_H_
