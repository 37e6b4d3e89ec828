// The one that decides: takes arrivals and news, lets requests join, forms tasks for every worker
// that has room, and answers. A function, not a thread; the sole writer of everything below it.
//
//   Step:  control -> completions of each worker -> messages -> joins -> tasks for each worker
//
// What a step does follows from the steps before it and from what it finds at its begin (control messages, tasks done,
// devices lost) and takes from its ring: nothing else is read twice, or from a clock. So it can be recorded, and taken
// again (record/schedule_tape.h).
//
// Each part is bounded; nothing waits, locks, logs or allocates after the lanes are warm.
#ifndef CELLBATCH_SCHEDULER_MANAGER_H_
#define CELLBATCH_SCHEDULER_MANAGER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/batch_former.h"
#include "scheduler/control_message.h"
#include "scheduler/doorbell.h"
#include "scheduler/lane.h"
#include "scheduler/lane_table.h"
#include "scheduler/mpsc_ring.h"
#include "scheduler/outbox.h"
#include "scheduler/record/schedule_tape.h"
#include "scheduler/request_processor.h"
#include "scheduler/request_slots.h"
#include "scheduler/task_ring.h"
#include "scheduler/worker.h"

namespace cellbatch {

// Read by anyone.
struct DeviceCounters {
  std::atomic<uint64_t> tasks = 0;
  std::atomic<int64_t> busy_ns = 0;
};

// Of a replay: what other threads did for a message before they sent it, done as the manager takes it. Those that sent it
// live may have begun after the step did, with what it had just told them.
class ReplayedMessages {
 public:
  virtual ~ReplayedMessages() = default;
  virtual void Arriving(RequestBlock& block) = 0;
  virtual bool Continuing(RequestBlock& block) = 0;  // false: it does not wait for that
  virtual uint64_t NewsOf(uint32_t slot) = 0;        // the slot's word
};

// What the manager shares with the rest of the scheduler; all of it outlives the manager.
struct ManagerParts {
  absl::Span<const std::unique_ptr<Worker>> workers;
  absl::Span<const std::unique_ptr<TaskRing>> rings;
  absl::Span<const int> memory_of;
  absl::Span<const std::unique_ptr<Outbox<RequestBlock*>>> outboxes;
  absl::Span<const std::unique_ptr<Doorbell>> outbox_bells;
  absl::Span<const std::unique_ptr<Doorbell>> worker_bells;
  absl::Span<DeviceCounters> device_counters;
  RequestSlots* slots;
  MpscRing* messages;
  // What steps saw and did goes there, for a record; null: nowhere.
  ScheduleTape* tape = nullptr;
  ReplayedMessages* replayed =
      nullptr;  // of a replay, which has a tape, too; null: messages are live
};

// Messages: a block is an arrival, or, marked, one whose taker is done with it between two pieces (as a
// request arrives only once, the two share its token of the ring); an odd number names a slot with news.
inline constexpr uint64_t kContinued = 2, kExtendFailed = 4, kMessageBits = kBlockAlignment - 1;
inline uint64_t ContinuedMessage(const RequestBlock* block, bool failed) {
  return reinterpret_cast<uintptr_t>(block) | kContinued | (failed ? kExtendFailed : 0);
}
inline uint64_t ArrivalMessage(const RequestBlock* block) {
  return reinterpret_cast<uintptr_t>(block);
}
inline uint64_t NewsMessage(uint32_t slot) { return uint64_t{slot} << 1 | 1; }

class Manager {
 public:
  Manager(const SchedulerOptions& options, int depth, const ManagerParts& parts);

  bool Step();
  // What arrives now can wait: every device that is left is full, and will ring. False if none is left:
  // then nobody else rings, and what arrives is answered at once.
  bool AllDevicesFull() const;

  // Control thread. The message must stay until it is done; one at a time.
  void Post(ControlMessage* message) { control_.store(message, std::memory_order_release); }

  // Between steps. See Scheduler::CheckInvariants.
  absl::Status CheckInvariants() const;

 private:
  bool Control();
  void Look(ControlMessage& message);
  bool FinishControl(ControlMessage& message);
  void Close(Lane& lane);
  void StopAll();
  bool Complete(int worker);
  void Retire(const TaskSlot& slot, int worker);
  void FenceWorker(int worker);
  void FailIfNoDevice();
  MemorySet AliveMemories() const;
  bool AnyAlive(const Lane& lane) const { return (lane.memories().lives_in() & alive_) != 0; }
  void PrefetchArrivals() const;
  bool Receive();
  void ReceiveAll();
  void Continue(RequestBlock& block, bool failed);
  void Arrive(RequestBlock& block);
  void Hear(uint32_t slot);
  bool Join();
  bool JoinHead(Lane& lane, RequestBlock& block, int64_t joined_now);
  bool NeverFits(const Lane& lane, const RequestBlock& block) const;
  int BestWorker(Lane& lane, const RequestBlock& block, int64_t joined_now,
                 MemorySet excluded) const;
  bool HasWork(const Lane& lane, int worker) const;
  bool HasWorkAnywhere(const Lane& lane) const;
  double VirtualNowNs(const Lane& lane) const;
  Lane* NextLane(int worker);
  int DepthNow() const;
  bool Schedule(int worker);
  int SubmitTasks(Lane& lane, int worker, int room);
  void Cut(const ControlMessage& message);
  void BeginWarmUp(Lane& lane);
  int64_t TaskLimitNs(int64_t expected_ns) const;
  bool MayWarm(const Lane& lane, int worker) const;
  bool IsIdle(int worker) const;
  void SubmitWarmUp(Lane& lane, int worker);
  void WarmUpDone(Lane& lane, int worker, int64_t ns);
  void FinishWarmUp(Lane& lane);
  bool Steal(int thief, bool even_if_busy);
  void PublishAnswers();
  void Publish();
  // A visit may answer those that come after it: they are not visited.
  template <typename Visit>
  void ForEachPresent(Visit visit) {
    for (uint32_t slot = 0; slot < static_cast<uint32_t>(options_.max_requests); ++slot) {
      if (processor_.IsPresent(slot)) visit(*parts_.slots->block(slot));
    }
  }
  absl::Status CheckQueues(const Lane& lane) const;
  absl::Status CheckPriorities(const Lane& lane) const;
  absl::Status CheckNodes(Lane& lane) const;
  struct CountedNodes;
  void CountNodes(const Lane& lane, const RequestBlock& block,
                  std::vector<CountedNodes>& counted) const;
  absl::Status CheckRequest(const Lane& lane, const RequestBlock& block) const;
  absl::Status CheckBatch(const Lane& lane) const;

  const SchedulerOptions options_;
  const int depth_;
  const int64_t task_limit_ns_;           // 0: none
  const int64_t longest_expectation_ns_;  // times task_time_factor, it still is an int64_t
  const ManagerParts parts_;
  std::vector<WorkerLink> workers_;
  std::vector<Lane*> lanes_;  // by index; null: none
  OutboxSink sink_;
  RequestProcessor processor_;
  BatchFormer former_;
  std::atomic<ControlMessage*> control_ = nullptr;
  // Of that message, as this step found it.
  const ControlMessage* looked_at_ = nullptr;  // last; null: it came true
  uint32_t turn_ = 0;
  bool when_idle_ = false, cut_ = false;
  bool received_all_ = false;         // in this step: what comes meanwhile is the next one's
  std::vector<uint32_t> warm_turns_;  // by worker: of its last warm-up task
  bool stopping_ = false;
  int num_lanes_ = 0;    // lanes_ beyond are null
  MemorySet alive_ = 0;  // memories that a living device computes on
  // By memory: how far the lane had come that was served there last; never back.
  std::vector<double> virtual_now_ns_;

  struct EarlyNews {
    uint32_t slot;
    uint32_t generation;
    Outcome outcome;
  };
  std::vector<EarlyNews> early_news_;  // overtook its request; a handful at most
  std::vector<uint32_t> arrived_;      // by slot: the generation that arrived last; 0: none
  std::vector<RequestBlock*> scratch_;
  std::vector<uint8_t> to_ring_;  // by outbox: published since its bell was rung
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_MANAGER_H_
