// Whether everybody gets a turn, seen from outside: from what devices ran, and what could have run by the
// oracle. No bound here grows with how much waits.
//
//   a type       ready in a memory and not run there: its model runs so many other tasks on each worker
//   a subgraph   the one of its type that waits longest: so many tasks of that type pass it by, on each worker
//   a request    not started, though one that came later has (so it has joined): as that subgraph
//   priority     a task runs while a type of higher priority has a full batch, or is ready and not running
//   a model      shares.h: where there is one worker
//   levels       priority_turns.h: of models whose requests have priority levels; there subgraphs and requests are judged by
//                these alone
//
// A subgraph counts as ready once all that it reads is done (roots: once something of their request ran), which
// may be later than the manager knows. On which worker it waits is not seen, so a wait is too long only where
// it is too long on every living worker of the memory; with one worker a memory that is exact. What happens to
// priorities is looked at there only. A worker's tasks are counted when they are done.
#ifndef CELLBATCH_TESTS_SIMULATION_TURNS_H_
#define CELLBATCH_TESTS_SIMULATION_TURNS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/priority_turns.h"
#include "tests/simulation/shares.h"

namespace cellbatch::sim {

struct TurnRules {
  int max_tasks_in_flight = 1;
  int max_wait_tasks = 20;  // as the scheduler was given it
  int chain_turn = 64;
  bool idle_types_first = true;  // the policy's: of types without a full batch, by priority
  // Its choices name a depth: a batch is full if it is at one, and so many tasks of a type as its guard allows may leave
  // behind what lies at another.
  bool picks_depth = false;
  // Whoever is busy steals, too: then what waits may be carried from one worker of its memory to the next, where
  // its wait begins anew, behind what waits there. No server does that; types and subgraphs are watched where a
  // memory has one worker.
  bool busy_steal = false;
  // Batches of whole graphs (scheduler/policy/whole_graphs.h). Padded: what reads a chain follows when its padding is
  // computed, of which nothing is seen here, so types, subgraphs, requests and priorities are not watched. By length:
  // requests pass others by whose bucket has its turn later, and are not.
  bool padded = false, by_length = false;
  int64_t priority_ageing = 1000;  // as the scheduler was given it
  bool whole_graphs = false;       // batches of them
  bool may_wait = false;           // those of TypeMayWait do, for their batches to fill
  int64_t longest_task_ns = 0;
};

// Which types of a model wait, where any do: whatever they are, what the scheduler says of them holds.
inline bool TypeMayWait(CellTypeId type) { return type.value() % 3 == 1; }

// What was seen: how near waits came to their bounds.
struct LongestWaits {
  int64_t type_tasks = 0, subgraph_tasks = 0, model_ns = 0;
  int64_t priorities_compared = 0;
  int64_t waits_compared = 0;   // of types that may wait, tasks that were not full
  int64_t levels_compared = 0;  // of requests
  double shares_apart = 0;      // of what is allowed
};

class Turns {
 public:
  Turns(TurnRules rules, std::function<void(std::string)> violated)
      : rules_(rules),
        violated_(violated),
        levels_(rules.max_tasks_in_flight, rules.priority_ageing,
                !rules.picks_depth && !rules.whole_graphs, violated),
        shares_(rules.longest_task_ns, rules.max_tasks_in_flight, std::move(violated)) {}

  // Before any model. Memories are numbered from 0.
  void AddWorker(const Device& device, int memory);
  // max_batch: in force, by memory and type.
  void Open(const Model& model, const std::vector<std::vector<int32_t>>& max_batch);
  void Closing(ModelId model) { levels_.Closing(model); }  // its requests may be cut short
  void Close(ModelId model);
  // From now on that device runs nothing; what it had goes to others, behind what they have.
  void Failed(const Device& device);

  // `plan` and `evaluation` stay until Left. level: its priority as it says.
  void Submitted(int32_t tag, const Model& model, const Plan& plan, const Evaluation& evaluation,
                 int32_t level);
  void Extended(int32_t tag);  // its next piece may run
  void Left(int32_t tag);      // answered, or about to be: it waits for nothing any more

  // A task is done, which took `ns`; then each of its nodes; then what follows from it.
  void BeginTask(const Device& device, const BatchedTask& task, ModelId model, int64_t ns);
  void Node(int32_t tag, size_t subgraph);
  void EndTask();
  // A task of a model that is not open yet.
  void WarmUp(const Device& device, const BatchedTask& task, const Model& model, int64_t ns);

  LongestWaits longest() const;

 private:
  struct SubgraphTurn {
    int32_t left = 0;       // nodes of the answer that have not run
    int32_t pending = 0;    // subgraphs it reads that are not done
    uint64_t stamp = 0;     // of its entry in the line of its type; 0: not ready, or done
    uint64_t ready_at = 0;  // the last task of its worker by then
    std::vector<int32_t> readers;
  };
  struct Runner {
    const Plan* plan;
    ModelId model;
    int pieces = 1;
    int memory = -1;  // once something of it ran
    std::vector<SubgraphTurn> subgraphs;
  };
  using PerWorker = std::vector<int64_t>;
  struct Waiting {
    int32_t tag = 0;
    size_t subgraph = 0;
    uint64_t stamp = 0;
    PerWorker since =
        {};  // tasks of the model when it became ready; empty where a memory has one worker
  };
  struct TypeTurn {
    int64_t ready = 0;         // nodes; a chain counts as one
    std::deque<Waiting> line;  // longest waiting first; what is over stays until it is in front
    PerWorker tasks, last;     // of this type; tasks of the model when it ran last
    PerWorker sequence;        // of its last task
    PerWorker since;           // tasks of the model when it became ready, or ran anywhere here
    Waiting front;
    PerWorker front_tasks, front_since;  // the same two when it came to the front
  };
  struct Place {  // a model in a memory
    std::vector<TypeTurn> types;
    std::vector<int32_t> max_batch;
    PerWorker tasks;
    bool in_order = true;
  };
  struct Lane {
    ModelId model;
    std::vector<CellType> const* types = nullptr;
    bool has_levels = false;
    int64_t most_passed = 0;    // tasks of the model before a type's turn comes
    std::vector<Place> places;  // by memory
    std::deque<int32_t> unstarted;
    int32_t overtaken = 0;
    size_t overtaken_type = 0;
    PerWorker overtaken_tasks, overtaken_since;
  };
  struct Worker {
    int memory;
    bool alive = true;
    uint64_t sequence = 0;  // done
    ModelId model;          // of the last task
    int32_t type = -1;
  };

  int64_t WorkersOf(int memory) const;
  uint64_t SequenceIn(int memory) const;  // the last task there
  SubgraphTurn* Find(const Waiting& waiting);
  void Ready(Runner& runner, int32_t tag, size_t subgraph);
  void Starts(Runner& runner, int32_t tag);
  void Unstarted(Lane& lane, int32_t tag);
  void CheckPriority(const Lane& lane, const Place& place, int worker, const BatchedTask& task);
  void CheckWaited(const Lane& lane, const Place& place, int worker, const BatchedTask& task);
  int64_t SurelyReady(const TypeTurn& type, uint64_t sequence, int64_t enough);
  void CheckType(const Lane& lane, Place& place, int memory, size_t type);
  void CheckFront(const Lane& lane, Place& place, int memory, size_t type);
  void CheckOvertaken(Lane& lane);
  bool PassedBy(const Lane& lane, const Place& place, int worker, size_t type, int64_t tasks_then,
                int64_t since);
  int64_t MostTasks(const Lane& lane, const Place& place, size_t type) const;
  void Push(const Runner& runner, Place& place, size_t type, int32_t tag, size_t subgraph);
  void WaitsAnew(Place& place, size_t type);
  void Add(Lane& lane, Place& place, size_t type, int64_t nodes);
  bool IsChain(const Lane& lane, size_t type) const;
  template <typename Test>
  bool OnAll(int memory, Test test) const;  // living workers of it; -1: of all; false: none lives

  const TurnRules rules_;
  const std::function<void(std::string)> violated_;
  PriorityTurns levels_;
  Shares shares_;
  std::vector<Worker> workers_;
  std::map<const Device*, int> worker_of_;
  std::map<int32_t, Lane> lanes_;  // by model
  absl::flat_hash_map<int32_t, std::unique_ptr<Runner>> runners_;
  uint64_t stamps_ = 0;
  LongestWaits longest_;
  // Of the task between BeginTask and EndTask.
  Lane* lane_ = nullptr;
  Place* place_ = nullptr;
  int worker_ = 0;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_TURNS_H_
