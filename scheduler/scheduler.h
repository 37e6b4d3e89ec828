// The room's one door: what the server, tests and benchmarks see. Wires the manager, one worker per
// device, their loops and the outboxes.
//
// Every request that Submit took comes back exactly once through its outbox's Take; one that streams or
// grows is told of there before, too. It is in the outbox at most once: what happens while it lies there
// goes with it.
//
//   manager    running .. a word, another ..  all of piece 0 done        piece 1 runs ..   done
//                              |                   |                          ^              |
//   taker                   kWords              kPiece --> Extend, Seal --> Extended       kDone
//
// Threads: Submit, Notify and stats from any thread; Take and WaitForFinished by the outbox's one
// consumer; Add/RemoveModel by one control thread at a time.
#ifndef CELLBATCH_SCHEDULER_SCHEDULER_H_
#define CELLBATCH_SCHEDULER_SCHEDULER_H_

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "cells/check.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/policy/lane_rules.h"
#include "scheduler/request.h"
#include "scheduler/stats.h"

namespace cellbatch {

class CalibrationShelf;
class Recorder;

// When a worker takes ready subgraphs from another's queue (one memory only). kAlways steals even
// with work of its own: the simulation reaches two-worker cases with it that are rare otherwise.
enum class Stealing : uint8_t { kWhenIdle, kAlways, kNever };

inline constexpr int64_t kMostPriorityAgeing = 1'000'000;

struct SchedulerOptions {
  // Per worker (MaxTasksToSubmit); 0: 1 on one CPU device, else what the least of the devices asks for (DeviceInfo).
  int max_tasks_in_flight = 0;
  // Of them, so many where more would do harm: of a type whose tasks do not run ahead (ReadyQueue::MayRun), and of all where
  // several models take turns. 0: all of them, or, where devices said how many, 2.
  int few_tasks_in_flight = 0;
  int max_requests = 1 << 17;  // submitted and not taken back; beyond: Submit answers none
  int max_wait_tasks = 20;     // tasks of its lane a ready type may be passed over
  // Tasks after which a running chain gives its place to a ready subgraph that waits for one. So who is number k in
  // the queue of its type runs within (k / max_batch + 1) times as many tasks of that type, whatever runs before it.
  int chain_turn = 64;
  // Of models with priority levels: for each level below the most urgent a request counts as having arrived so many tasks
  // of its model later than it did, and what becomes ready of it before that counts as having become ready then. Whoever
  // arrives later than that is behind it, at every level. 1 to kMostPriorityAgeing.
  int64_t priority_ageing = 1000;
  int64_t row_budget_bytes = 1LL << 30;  // rows of one model in one memory
  int32_t batch_limit = 512;             // largest max_batch, and the largest calibrated
  int num_outboxes = 1;
  bool calibrate = true;  // false: no T(b) is measured; a type without a max_batch gets batch_limit
  // A device that runs by itself is hung, and given up, when a task is in progress for longer than both of these.
  absl::Duration task_time_limit = absl::Seconds(10);  // InfiniteDuration: never
  int task_time_factor = 100;                          // times what such a task took last
  // RemoveModel: so long its requests may run on; then they are answered UNAVAILABLE.
  absl::Duration unload_limit = absl::Seconds(60);
  Stealing stealing = Stealing::kWhenIdle;
  absl::Duration spin = absl::Microseconds(50);  // before a loop parks; 0 on busy cores
  // What a lane counted, when the last request of a model that is removed has left it, just before Lanes() is without it
  // (so for a moment both have it). On RemoveModel's thread.
  std::function<void(const LaneStats&)> lane_ended;
  // Has T(b) of earlier starts, which is confirmed then instead of measured (warm/calibration_shelf.h); outlives the
  // scheduler. Null: none has it. Who records measures in any case: the record says what T(b) was by the tasks that
  // measured it, and is replayed without a shelf. What it measured is kept all the same.
  CalibrationShelf* calibration_shelf = nullptr;
  // Is told of all requests and of what the manager sees and does (record/recorder.h); outlives the scheduler. Null:
  // nobody is, at the cost of a few branches that are never taken.
  Recorder* recorder = nullptr;
  bool threads = true;  // false: nobody calls Step() but the caller (tests, simulation)
  // With threads == false: what AddModel, RemoveModel and Stop do, again and again, while they wait; false if nothing
  // moved, time included. Null: a step of everybody.
  std::function<bool()> meanwhile;
};

// T(b) of one cell type in one memory, measured through the ordinary ring when its lane warmed.
struct CalibrationPoint {
  int32_t batch;
  int64_t task_ns;
};
struct CellTypeCalibration {
  int memory = 0;  // index into DeviceSet::memories
  CellTypeId type;
  int32_t max_batch = 0;   // in force there: configured, or the knee of T(b) (warm/calibration.h)
  int32_t peak_batch = 0;  // in force while its queue stays longer than that (batch_limit.h)
  std::vector<CalibrationPoint> points;
  bool kept = false;  // they are of an earlier start, and were confirmed
};

// Model versions that are served at once; one more while it takes another's place.
inline constexpr int kMostModels = 256;

enum class News : uint8_t { kCancelled, kExpired };

// A taker of answers naps a few times, without being woken, before it parks: a 32nd of the time that passed from
// Submit until what it took was answered (so the longer they waited in line, the fewer wake-ups take cores from
// those that run), within these bounds (and the system's timer slack, 50 us); the least where words stream.
inline constexpr int kAnswerNaps = 16;
inline constexpr int64_t kTookPerNap = 32;
inline constexpr int64_t kLeastAnswerNapNs = 50'000, kMostAnswerNapNs = 1'000'000;

class Scheduler {
 public:
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(SchedulerOptions options,
                                                           DeviceSet devices, const Clock& clock);
  // Stops; what nobody took is freed. REQUIRES: no piece that Take handed over waits for Extended.
  virtual ~Scheduler() = default;

  // Models that AddModel will be given next: what they share of each memory is divided between them before any is loaded
  // (Memory::Expect). They live until others are expected, or none. Milliseconds.
  virtual void ExpectModels(absl::Span<const Model* const> /*models*/) {}
  // Loads the model into every memory that has a device left, warms every type at every calibrated batch
  // size through the ordinary ring, then opens its lane. Seconds; beside lanes that serve, 33 times what its
  // warm-up tasks take, at most 65 times where no device is ever idle (warm/warm_up_pace.h). `rules` null:
  // Algorithm 1, joining at any time. Whatever dies meanwhile, it returns: OK if a device is left, else
  // UNAVAILABLE with the first failure, as it does when Stop is called from another thread.
  virtual absl::Status AddModel(std::shared_ptr<const Model> model, LaneRules rules) = 0;
  // Closes the lane, waits for its last request (at most unload_limit; then what is left is answered
  // UNAVAILABLE, and only tasks in flight are waited for), unloads. NOT_FOUND if it is not there.
  virtual absl::Status RemoveModel(ModelId model) = 0;
  // Another policy decides for that model from the manager's next step on, for what runs and waits, too; who joins stays
  // as it was. `rules`: only the policy's part is looked at. Waits for that step. NOT_FOUND: it is not served.
  // FAILED_PRECONDITION: it looks at what the lane does not keep up (FrontierNeeds), or picks depths and the one before it
  // does not, or the other way round: then the model is to be loaded again.
  virtual absl::Status SetPolicy(ModelId model, LaneRules rules) = 0;
  virtual std::vector<CellTypeCalibration> Calibration(ModelId model) const = 0;
  // The most rows of each table one request may need (15/16 of the table): admission checks it, so
  // that an admitted request can always finish alone.
  virtual std::vector<int32_t> MaxRowsPerRequest(ModelId model) const = 0;

  // In force (see SchedulerOptions): what CellGraph::Seal wants to know.
  virtual int max_tasks_in_flight() const = 0;

  // Takes the request, or answers none (full, or the lane is not open) and it is still the caller's.
  // Never waits. On the caller's thread it compiles the graph into the request's run state: one
  // allocation, O(links), before the manager sees anything.
  virtual std::optional<RequestId> Submit(std::unique_ptr<Request>& request) = 0;
  // Never fails and may come late: the request leaves at the next task boundary, with
  // status CANCELLED or DEADLINE_EXCEEDED, unless it is done before.
  virtual void Notify(RequestId id, News news) = 0;

  // What there is to tell, oldest first; returns how many. Never waits. A Delivery's request is read
  // (kWords) before the next Take: that may hand over the same one as done.
  virtual int Take(OutboxId outbox, absl::Span<Delivery> out) = 0;
  // Gives back what a kPiece delivered, exactly once, from any thread: what was added to its graph and
  // sealed is run next; if nothing was, or `extended` is not OK, it is answered, with that status.
  // A cancel meanwhile is heard, and answered after this. Compiles the piece: one allocation, O(links).
  virtual void Extended(Request& request, absl::Status extended) = 0;
  // Take for outboxes whose requests neither stream nor grow: the finished ones.
  int Take(OutboxId outbox, absl::Span<std::unique_ptr<Request>> finished);
  // Parks until something is to be taken, WakeOutbox is called, or the time is over. After a Take that
  // found something it naps a few times first (kAnswerNaps), unless a piece was among it: where much is
  // answered nobody has to wake the taker, which costs the scheduler's thread, and so all who run, 13 us
  // and more.
  virtual void WaitForFinished(OutboxId outbox, absl::Duration at_most) = 0;
  virtual void WakeOutbox(OutboxId outbox) = 0;

  // Requests left are answered UNAVAILABLE, tasks in flight on devices that are left are waited for, loops end.
  // A model that is loaded by another thread is given up. After it only Take, Extended and RemoveModel are called.
  virtual void Stop() = 0;

  virtual const SchedulerStats& stats() const = 0;
  // OK while every device is healthy; else the first failed device's status.
  virtual absl::Status DeviceHealth() const = 0;
  virtual bool any_device_left() const = 0;

  // With options.threads == false: one step of each; true if any did work. Tests and simulation.
  // StepWorker enqueues what was submitted, calls the device's Advance once, reaps what is done. One
  // thread for both, where a lone device computes on it (computes_in_advance).
  virtual bool StepManager() = 0;
  virtual bool StepWorker(int device) = 0;
  // Everything the manager keeps agrees with itself: queues and records, rows and owners, pins and
  // counts. O(everything); between steps, threads == false. INTERNAL says what does not.
  virtual absl::Status CheckInvariants() const = 0;
};

inline int Scheduler::Take(OutboxId outbox, absl::Span<std::unique_ptr<Request>> finished) {
  std::array<Delivery, 64> some;
  size_t taken = 0;
  while (taken < finished.size()) {
    const size_t room = std::min(some.size(), finished.size() - taken);
    const auto n = static_cast<size_t>(Take(outbox, absl::MakeSpan(some.data(), room)));
    for (size_t i = 0; i < n; ++i) {
      Check(some[i].kind == Delivery::Kind::kDone,
            "a request that streams or grows, where none should");
      finished[taken++] = std::move(some[i].done);
    }
    if (n < room) break;
  }
  return static_cast<int>(taken);
}

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_SCHEDULER_H_
