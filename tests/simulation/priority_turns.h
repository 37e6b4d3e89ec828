// Whether requests of models with priority levels get their turns by them, seen from outside. A request of level n (0: the
// most urgent) counts as having arrived n * priority_ageing tasks of its model later than it did, at A. Then:
//
//   who waits     a subgraph that became ready at R, and whose request counts as having arrived at A, stands at max(A, R)
//   goes before   nobody of whom A is later than that: neither the less urgent, nor whoever came too late to overtake it
//   who runs      a chain gives its place, once its turn is over, to nobody who would not go before it if it waited
//   the line      of those who stand behind a request there and begin with its type no more start before it than may have
//                 joined before it came: two batches
//
// Looked at on workers that have a memory to themselves, for only there it is known who waits where; the line, where
// there is no other worker at all. All moments are tasks of the model that are done; the scheduler counts those that are
// submitted, so moments are known to `slack_`. Policies that pick depths, and batches of whole graphs, are not looked at.
#ifndef CELLBATCH_TESTS_SIMULATION_PRIORITY_TURNS_H_
#define CELLBATCH_TESTS_SIMULATION_PRIORITY_TURNS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cells/model.h"
#include "tests/simulation/plan.h"

namespace cellbatch::sim {

class PriorityTurns {
 public:
  PriorityTurns(int max_tasks_in_flight, int64_t ageing, bool judged,
                std::function<void(std::string)> violated)
      : max_tasks_in_flight_(max_tasks_in_flight),
        ageing_(ageing),
        judged_(judged),
        violated_(std::move(violated)) {}

  void AddWorker(int memory);
  // max_batch: by memory and type.
  void Open(const Model& model, const std::vector<std::vector<int32_t>>& max_batch);
  void Closing(ModelId model);  // its requests may be withdrawn: it is not looked at any more
  void Failed(int memory);

  // level: as the request says, 0: the model's default.
  void Submitted(int32_t tag, const Model& model, const Plan& plan, int32_t level);
  void Left(int32_t tag);  // or about to: it waits for nothing

  // A task is done; then, of what was in it: who started with it, what ran (`chain`: of a chain, another node may follow in
  // the next task), what became ready by it or is still so.
  void BeginTask(ModelId model, int memory, int32_t type, uint64_t sequence);
  void Starts(int32_t tag);
  void Runs(int32_t tag, size_t subgraph, bool chain);
  // ready_at: the last task of its memory's worker by then.
  void Waits(int32_t tag, size_t subgraph, int memory, int32_t type, uint64_t ready_at);
  void EndTask();

  int64_t compared() const { return compared_; }

 private:
  struct Waiting {
    uint64_t ready_at;
    int64_t type_tasks;      // of its type there, by then
    bool ran;                // in the last of these: it has a place, or is what is left of a set
    int64_t stands_at = -1;  // at the latest; known once it was left out of a task
  };
  using Queue = std::map<std::pair<int32_t, size_t>, Waiting>;  // by tag, subgraph
  struct Lane {
    bool closing = false;
    int32_t levels = 1, default_level = 1;
    int64_t tasks = 0;
    std::vector<std::vector<int32_t>> max_batch;
    std::map<std::pair<int, int32_t>, Queue> queues;  // by memory, type
    std::map<std::pair<int, int32_t>, int64_t> type_tasks;
  };
  struct Runner {
    int32_t model;
    int32_t level;                     // 0: the most urgent
    int64_t submitted;                 // tasks of its model by then
    std::vector<int32_t> begins_with;  // types
    bool started = false;
    int64_t passed = 0;  // by later ones that stood behind it in the line
  };

  int64_t CountsAsArrived(const Runner& runner) const {  // at the earliest
    return runner.submitted + runner.level * ageing_;
  }
  int64_t LatestArrival(const Runner& runner) const { return CountsAsArrived(runner) + slack_; }
  void CheckBefore(const Queue& queue);

  const int max_tasks_in_flight_;
  const int64_t ageing_;
  const bool judged_;
  const std::function<void(std::string)> violated_;
  int64_t slack_ = 0;            // tasks submitted and not done, or lost, at most
  std::vector<int> workers_of_;  // by memory
  std::vector<bool> failed_;
  std::map<int32_t, Lane> lanes_;  // that are looked at
  std::map<int32_t, Runner> runners_;
  int64_t compared_ = 0;
  // Of the task between BeginTask and EndTask.
  Lane* lane_ = nullptr;  // null: of a lane that is not
  int memory_ = 0;
  int32_t type_ = 0;
  uint64_t sequence_ = 0;
  std::vector<int32_t> entered_;  // tags: not in the task before it
  std::pair<int32_t, size_t> ran_;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_PRIORITY_TURNS_H_
