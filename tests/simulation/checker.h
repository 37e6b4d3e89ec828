// Watches simulated devices and knows, from the oracle alone, what they may do. It never looks into
// the scheduler: a row's owner follows from the fingerprints that devices write.
//
//   Submitted ---> nodes expected, by fingerprint
//        devices:  Started (tokens arrive), Done (nodes run) --> each once, the right thing, in rows
//                  that nobody else who is still there owns; never too far past a stop
//   Finished  ---> all of it ran, the answer's bytes are right; rows are freed, so that whoever reads
//                  them later is caught, and whoever runs later for this request is nobody's
//
// Everything here costs what a step touched; CheckAll looks at the rest (every 1,000 steps).
#ifndef CELLBATCH_TESTS_SIMULATION_CHECKER_H_
#define CELLBATCH_TESTS_SIMULATION_CHECKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "cells/device/sim/sim_device.h"
#include "cells/device/sim/sim_memory.h"
#include "scheduler/scheduler.h"
#include "tests/simulation/plan.h"
#include "tests/simulation/turns.h"

namespace cellbatch::sim {

struct Expectation {  // a request that is out
  int32_t tag = 0;
  Plan plan;
  std::vector<int32_t> inputs;
  Evaluation evaluation;
  std::shared_ptr<const Model> model;
  RequestId id;
  bool cancelled = false, expired = false;  // was notified, perhaps too late
  bool streams = false;                     // is told of as its words are written
  int32_t priority = 0;
  bool extend_failed = false;  // so says whoever extended it
  bool unloaded = false;       // its model was, perhaps before it arrived
  int failures_known = 0;      // devices that everybody knew had failed, at Submit
};

struct Tally {
  int64_t ok = 0, cancelled = 0, expired = 0, failed = 0;  // answers
  int64_t tasks = 0, nodes = 0, discarded = 0;             // computed; nodes past a stop
  int64_t padding = 0;                                     // computed, and no request's
  int64_t news = 0;                                        // times that words were told of
  int64_t pieces = 0;                                      // done, of requests that grow
  int64_t refused = 0;                                     // answers: extending failed
  int64_t unloaded = 0;                                    // answers: the model was unloaded before
  int64_t overrun = 0;     // what OK answers say they ran past stops
  int64_t warm_tasks = 0;  // of models that were being loaded
};

class Checker final : public SimObserver {
 public:
  Checker(const TurnRules& rules, const SimTime& time)
      : max_tasks_in_flight_(rules.max_tasks_in_flight),
        time_(time),
        turns_(rules, [this](std::string what) { Violated(std::move(what)); }) {}

  void AddDevice(const SimDevice& device, int memory) { turns_.AddWorker(device, memory); }
  void DeviceFailed(const SimDevice& device) { turns_.Failed(device); }
  // Until it is loaded (then: null), tasks of that model warm it up.
  void Loading(const Model* model) { loading_ = model; }
  // Once it is loaded, wherever it is: what its rows hold there, and who gets a turn, is watched from now on.
  // max_batch: in force, by memory and type.
  void Watch(absl::Span<SimMemory* const> memories, const Model& model,
             const std::vector<std::vector<int32_t>>& max_batch);
  // Its requests may be refused, or cut short; once it is unloaded, nothing of it is left.
  void Closing(ModelId model);
  void Unwatch(const Model& model);

  void Submitted(std::unique_ptr<Expectation> expected);
  Expectation* Find(int32_t tag);
  // What Take told: news of a request that streams,
  void Told(const Request& request, int32_t words);
  // of a request that grows: a piece is done, and the request paused until Extended (`failed`: with an
  // error);
  void PieceDone(const Request& request, int32_t words);
  void Extended(int32_t tag, bool failed);
  // or its answer, at that time. `devices_failed`, `devices_left`: how many, by now.
  void Finished(const Request& request, int32_t words, int64_t now_ns, int devices_failed,
                int devices_left);
  // News is on its way to that request.
  void Notified(int32_t tag, News news);
  // No request that is out can have been answered: all have something to run that is not cancelled.
  bool AllMustBeThere() const { return may_leave_ == 0; }
  void CheckAll();
  void Violated(std::string what) { violations_.Add(std::move(what)); }

  int64_t outstanding() const { return static_cast<int64_t>(live_.size()); }
  const Tally& tally() const { return tally_; }
  LongestWaits longest() const { return turns_.longest(); }
  const SimViolations& violations() const { return violations_; }
  // A line for each of the first few that are out, for when nothing moves any more.
  std::vector<std::string> Outstanding() const;

  void Started(const Device& device, const BatchedTask& task) override;
  void Done(const Device& device, const BatchedTask& task,
            absl::Span<const Fingerprint> nodes) override;

 private:
  struct OwnedRow {
    TableId table;
    Row row;
  };
  struct Watched {             // one model in one memory
    SimModel* rows = nullptr;  // gone when Unwatch is called
    ModelId model;
    std::vector<std::vector<int32_t>> owner;  // tag by table, row; 0: nobody's
    std::vector<int32_t> max_batch;
  };
  struct Live {
    std::unique_ptr<Expectation> expected;
    std::vector<uint8_t> ran;  // by node number
    int64_t to_run = 0;        // cells of the answer that have not run
    int64_t cells_ran = 0;     // those past a stop, too
    int64_t past_stop = 0;     // these alone
    int32_t words = 0;         // told of, of the latest piece
    int pieces_done = 0;
    bool paused = false;       // between pieces
    bool may_leave = false;    // nothing is left to run, or it was notified
    Watched* where = nullptr;  // once something of it ran
    std::vector<OwnedRow> rows;
  };
  struct NodeRef {
    int32_t tag, node;
  };

  bool IsWarmUp(const BatchedTask& task) const;
  Watched& At(const BatchedTask& task);
  void Ran(Watched& where, const BatchedTask& task, Fingerprint what, TableId table, Row row,
           bool is_cell);
  void CheckPastStop(Live& live, int32_t node);
  bool WordsAreRight(const Live& live, const Request& request, int piece, int32_t words) const;
  void CheckWords(const Live& live, const Request& request, bool right, int32_t words);
  void CheckPiece(const Live& live, const Request& request, int piece);
  void CheckAnswer(const Live& live, const Request& request);
  void CheckAccount(const Live& live, const Request& request, int64_t now_ns);
  void CheckStatus(const Live& live, const Request& request, int devices_failed, int devices_left);
  void MayLeave(Live& live);
  void FreeRows(Live& live);
  int64_t Took(const Device& device);

  const int max_tasks_in_flight_;
  const SimTime& time_;
  Turns turns_;
  absl::flat_hash_map<const Device*, int64_t> started_;      // when the task of each that runs did
  std::unordered_map<const LoadedModel*, Watched> watched_;  // addresses stay
  absl::flat_hash_map<int32_t, std::unique_ptr<Live>> live_;
  absl::flat_hash_map<Fingerprint, NodeRef> nodes_;
  const Model* loading_ = nullptr;
  int64_t may_leave_ = 0;  // how many of live_
  Tally tally_;
  SimViolations violations_;
};

}  // namespace cellbatch::sim

#endif  // CELLBATCH_TESTS_SIMULATION_CHECKER_H_
