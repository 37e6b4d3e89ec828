// A device without numeric kernels: one FIFO queue whose tasks take virtual time and leave
// fingerprints (sim_task.h: what one does, and what it notices). It keeps the contract of device.h.
// Who moves its tasks along is an option:
//
//   kInAdvance   Advance starts a task, a later Advance ends it: as a CPU computes, on its worker's thread
//   kInTime      virtual time does, whoever moves it: asynchronous, and still on one thread
//   kOnThread    a thread of its own does, and moves time: asynchronous as a GPU is, for tests with threads
//
// With moves_time (the default) Advance itself moves time to the end of the running task (kInTime:
// past several ends, sometimes), so a device alone needs no driver. A simulation sets it false and
// moves time when nobody has work.
//
// A device that fails stops at once, or, with late_writes, goes on with what it took, writing rows
// and answers that nobody waits for any more, until it is abandoned. One that hangs says nothing.
//
// Deterministic by seed (but kOnThread). The worker's calls by one thread; the Fail, Hang, Hold and
// set_ calls by the same, or, of one that runs by itself, by any.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cells/device/device.h"
#include "cells/device/sim/sim_memory.h"
#include "cells/device/sim/sim_task.h"
#include "cells/device/sim/sim_time.h"

namespace cellbatch {

// T(b) = task_ns + b * node_ns.
struct SimCost {
  int64_t task_ns = 0;
  int64_t node_ns = 0;
};

enum class SimRuns : uint8_t { kInAdvance, kInTime, kOnThread };

struct SimDeviceOptions {
  std::string name = "sim:0";
  SimRuns runs = SimRuns::kInAdvance;
  size_t task_memory_bytes = size_t{32} << 20;
  int queue_capacity = 64;          // tasks taken and not done; beyond, Enqueue takes fewer
  int signal_bits = 64;             // width of the device's own counter, at least 8
  uint64_t first_sequence = 1;      // of its first task: tests start just below where counters wrap
  SimCost cost = {};                // of every cell type,
  std::vector<SimCost> costs = {};  // but of these (by CellTypeId)
  // Asked as a task starts, if it is given, and then none of those: what tasks took where they were measured.
  std::function<int64_t(const BatchedTask&)> task_ns = nullptr;
  // kInTime: launches of several tasks, as CUDA devices make them (cuda_device.h). They show their signal together, and each of
  // them takes launch_ns beside what its tasks take. 1: tasks are begun one by one.
  int tasks_a_launch = 1;
  int64_t launch_ns = 0;
  int launch_multiple = 1;  // launches are as wide as a multiple of this; then padding runs
  int64_t clock_ns = 0;     // what its own clock, of time stamps, is ahead of SimTime
  bool zero_cost =
      false;  // kInAdvance: a whole queue at once, nothing read or written (benchmarks)
  uint64_t seed = 1;
  double delay_chance = 0;  // of a task, to take up to max_delay_ns longer
  int64_t max_delay_ns = 0;
  double refusal_chance = 0;       // of an Enqueue, to take fewer tasks than it could
  int64_t fails_after_tasks = -1;  // then it breaks by itself; -1: never
  bool late_writes = false;        // not kInAdvance: failed, it goes on until Abandon
};

// Told about every task (not with zero_cost), until the device fails. On the thread that runs it.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void Started(const Device& device, const BatchedTask& task) = 0;  // copies in are made
  virtual void Done(const Device& device, const BatchedTask& task,
                    absl::Span<const Fingerprint> nodes) = 0;  // what each left
};

class SimDevice final : public Device, private SimEvents {
 public:
  // `time` and `memory` outlive the device.
  SimDevice(SimDeviceOptions options, SimMemory& memory, SimTime& time);
  ~SimDevice();

  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override { return absl::MakeSpan(task_memory_); }
  int Enqueue(absl::Span<BatchedTask* const> tasks) override;
  bool Advance() override;
  uint64_t Signal() const override;
  absl::Status Health() const override;
  void Abandon() override;

  void set_observer(SimObserver* observer) { observer_ = observer; }
  void set_moves_time(bool moves) { moves_time_ = moves; }
  // Chances of the options, from now on.
  void set_faults(double delay_chance, int64_t max_delay_ns, double refusal_chance);
  // When something happens to it by itself: the running task ends, or (kInTime) the next one starts.
  std::optional<int64_t> next_event_ns() const override;
  int64_t tasks_done() const { return static_cast<int64_t>(counter_.load()); }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  // When the task started that Hang keeps from ever ending; none runs, or it was abandoned: none.
  std::optional<int64_t> hangs_since_ns() const;
  // How often it wrote rows or host bytes: twice a task.
  int64_t writes() const { return writes_.load(std::memory_order_acquire); }

  // From now on this device is broken for good: its signal stands still, it takes no more. What it
  // took stops, or goes on (late_writes).
  void Fail(absl::Status why);
  // The running task, or the next one, ends that much later; kNever: never. Health stays good.
  static constexpr int64_t kNever = INT64_MAX;
  void Hang(int64_t longer_ns = kNever);
  // While held, tasks end but the signal does not show it.
  void HoldSignal(bool held);

 private:
  bool AdvanceHere();
  void Stop(bool give_up);
  void RunEvent() override;
  void RunThread();
  // The device's own side; mutex_ is held by those that run by themselves.
  // Tasks that were begun or may be, ever.
  uint64_t Launched() const {
    return options_.tasks_a_launch > 1 ? launched_ : taken_.load(std::memory_order_acquire);
  }
  bool Idle() const { return counter_.load() == Launched(); }
  void LaunchKept(int64_t now);
  bool StandsStill() const { return abandoned() || (failed() && !options_.late_writes); }
  BatchedTask& Running() { return *queue_[counter_.load() % queue_.size()].task; }
  void StartTask(int64_t now);
  void EndTask();
  void Break(absl::Status why);
  int64_t Duration(const BatchedTask& task);
  void ShowSignal();

  const SimDeviceOptions options_;
  SimMemory& memory_;
  SimTime& time_;
  DeviceInfo info_;
  std::vector<std::byte> task_memory_;
  SimTask task_;
  std::mt19937_64 random_;         // of the device's side
  std::mt19937_64 worker_random_;  // of its caller's
  SimObserver* observer_ = nullptr;
  bool moves_time_ = true;
  double delay_chance_, refusal_chance_;
  int64_t max_delay_ns_;

  struct Taken {
    BatchedTask* task;
    int64_t at_ns;
  };
  std::vector<Taken> queue_;           // ring of queue_capacity
  std::atomic<uint64_t> taken_ = 0;    // tasks enqueued, ever: the worker's
  std::atomic<uint64_t> counter_ = 0;  // tasks done, ever: the device's side
  std::atomic<uint64_t> shown_;        // the device's own counter, signal_bits wide
  mutable uint64_t widened_;           // the last Signal()
  std::atomic<bool> failed_ = false, abandoned_ = false;
  std::atomic<int64_t> writes_ = 0;
  mutable std::mutex mutex_;  // of what follows, and of the device's side
  std::condition_variable wake_;
  absl::Status health_;  // written before failed_
  bool held_ = false;
  bool running_ = false;  // the task at counter_ has started
  int64_t end_ns_ = 0;
  // Of launches, in tasks: those made, those done; where the one in progress ends, and the one behind it (0: there is none).
  uint64_t launched_ = 0, shows_ = 0, launch_end_ = 0, next_launch_end_ = 0;
  bool begins_launch_ = true;
  int64_t longer_ns_ = 0;  // of Hang, for the task to come
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_
