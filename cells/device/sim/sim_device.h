// A device without numeric kernels: one FIFO queue whose tasks take virtual time and leave
// fingerprints. It keeps the contract of device.h and, unlike a real device, notices when others do
// not keep theirs:
//
//   Advance: start a task            ... later ...            Advance: end it
//     copies in                                                 read the inputs again: they held still
//     read the inputs                                           write the outputs, host columns
//     write garbage into the outputs                            copies out, signal
//
// With moves_time (the default) Advance itself moves time to the end of the running task, so a
// device alone needs no driver. A simulation sets it false and moves time when nobody has work.
// Deterministic by seed. Called by one thread; the Fail, Hold and set_ calls too.
#ifndef CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_
#define CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cells/device/device.h"
#include "cells/device/sim/sim_memory.h"
#include "cells/device/sim/sim_time.h"

namespace cellbatch {

// T(b) = task_ns + b * node_ns.
struct SimCost {
  int64_t task_ns = 0;
  int64_t node_ns = 0;
};

struct SimDeviceOptions {
  std::string name = "sim:0";
  size_t task_memory_bytes = size_t{32} << 20;
  int queue_capacity = 64;          // tasks taken and not done; beyond, Enqueue takes fewer
  int signal_bits = 64;             // width of the device's own counter, at least 8
  SimCost cost = {};                // of every cell type,
  std::vector<SimCost> costs = {};  // but of these (by CellTypeId)
  bool zero_cost = false;  // a whole queue per Advance, nothing read or written (benchmarks)
  uint64_t seed = 1;
  double delay_chance = 0;  // of a task, to take up to max_delay_ns longer
  int64_t max_delay_ns = 0;
  double refusal_chance = 0;       // of an Enqueue, to take fewer tasks than it could
  int64_t fails_after_tasks = -1;  // then it breaks by itself; -1: never
};

// Told about every task (not with zero_cost). On the device's thread.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void Started(const Device& device, const BatchedTask& task) = 0;  // copies in are made
  virtual void Done(const Device& device, const BatchedTask& task,
                    absl::Span<const Fingerprint> nodes) = 0;  // what each left
};

class SimDevice final : public Device {
 public:
  // `time` and `memory` outlive the device.
  SimDevice(SimDeviceOptions options, SimMemory& memory, SimTime& time);

  const DeviceInfo& info() const override { return info_; }
  absl::Span<std::byte> task_memory() override { return absl::MakeSpan(task_memory_); }
  int Enqueue(absl::Span<BatchedTask* const> tasks) override;
  bool Advance() override;
  uint64_t Signal() const override;
  absl::Status Health() const override { return health_; }

  void set_observer(SimObserver* observer) { observer_ = observer; }
  void set_moves_time(bool moves) { moves_time_ = moves; }
  // Chances of the options, from now on.
  void set_faults(double delay_chance, int64_t max_delay_ns, double refusal_chance);
  // When the running task will end.
  std::optional<int64_t> next_event_ns() const;
  int64_t tasks_done() const { return static_cast<int64_t>(counter_); }
  bool failed() const { return !health_.ok(); }

  // From now on this device is broken for good: what it took never ends, its signal stands still.
  void Fail(absl::Status why);
  // While held, tasks end but the signal does not show it.
  void HoldSignal(bool held);

 private:
  void Start(BatchedTask& task);
  void End(BatchedTask& task);
  void CheckNames(const BatchedTask& task);
  void CopyRowsIn(const BatchedTask& task);
  int64_t Duration(const BatchedTask& task);
  template <typename Visit>
  void ForEachRead(const BatchedTask& task, Visit visit);
  void Violated(const BatchedTask& task, std::string what);
  void ShowSignal();

  const SimDeviceOptions options_;
  SimMemory& memory_;
  SimTime& time_;
  DeviceInfo info_;
  std::vector<std::byte> task_memory_;
  std::mt19937_64 random_;
  SimObserver* observer_ = nullptr;
  bool moves_time_ = true;
  double delay_chance_, refusal_chance_;
  int64_t max_delay_ns_;
  absl::Status health_;

  std::vector<BatchedTask*> queue_;  // ring of queue_capacity
  uint64_t taken_ = 0;               // tasks enqueued, ever
  uint64_t counter_ = 0;             // tasks done, ever
  uint64_t shown_ = 0;               // the device's own counter, signal_bits wide
  mutable uint64_t widened_ = 0;     // the last Signal()
  bool held_ = false;
  bool running_ = false;  // the task at counter_ has started
  int64_t end_ns_ = 0;
  std::vector<Fingerprint> read_;  // what the running task's inputs held at its start
  std::vector<Fingerprint> nodes_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIM_SIM_DEVICE_H_
