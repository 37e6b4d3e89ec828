// Chains of one model served by GPUs in this process, without a network, and several threads that send them (chain_driver.h):
// at a GPU's rates one thread that makes and takes requests would be the limit.
//
//   ChainDriver 0 --+                          +-- outbox 0 --> ChainDriver 0
//   ChainDriver 1 --+--> Scheduler, devices ---+-- outbox 1 --> ChainDriver 1
//
//   Full   so many in flight that their queue is a backlog: requests/s, what the GPU idles, and who is the limit
//   Open   Poisson arrivals at a rate: latency
//
// One thread calls it.
#ifndef CELLBATCH_TESTS_GPU_GPU_REQUESTS_H_
#define CELLBATCH_TESTS_GPU_GPU_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/device/cuda/cuda_device.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "tests/bench/in_process.h"
#include "tests/gpu/chain_driver.h"

namespace cellbatch {

struct FullGpu {
  double requests_per_s = 0, mean_cells = 0, mean_batch = 0;
  double tasks_a_launch = 0;  // mean
  // Of the time, mean over queues: that in which no task of the queue was between its first copy in and its last copy out, by
  // the GPU's own stamps. While it waits for another queue's blocks a task counts as running.
  double idle = 0;
  DriverWork work;          // of all drivers
  double drivers_busy = 0;  // of their time: that in which they make, submit, take and free
  double at_drivers =
      0;             // of the requests in flight, on average: answered, and not submitted again
  double ready = 0;  // nodes that could run and are in no task, on average
  // Cores that the scheduler's thread, and a queue's, keep busy; spinning counts. None: the system does not tell.
  std::optional<double> manager_cores, worker_cores;
};

struct OpenGpu {
  double asked_per_s = 0, answered_per_s = 0, mean_batch = 0;
  int64_t measured = 0;
  double p50_us = 0, p99_us = 0;
  double late_p99_us =
      0;  // until Submit took it: where that is much, drivers are too few, or the load too high
};

class GpuServing {
 public:
  // `devices` are CUDA's. Ends the process where a scheduler cannot be made; not OK: the model cannot be served.
  static absl::StatusOr<std::unique_ptr<GpuServing>> Make(DeviceSet devices,
                                                          std::shared_ptr<const Model> model,
                                                          const Lengths& lengths, int num_drivers,
                                                          uint64_t seed);
  ~GpuServing();

  int b_max() const { return b_max_; }
  // At least 4 * b_peak for each queue (scheduler/batch_limit.h).
  int in_flight() const;
  int num_drivers() const { return static_cast<int>(drivers_.size()); }

  // Seconds are those that are measured; a third of them, and a fifth, go before.
  absl::StatusOr<FullGpu> Full(double seconds);
  absl::StatusOr<OpenGpu> Open(double per_s, double seconds);

 private:
  struct Seen;

  explicit GpuServing(DeviceSet devices);
  absl::Status Serve(std::shared_ptr<const Model> model, const Lengths& lengths, int num_drivers,
                     uint64_t seed);
  Seen See() const;
  // Looks again and again for so long; into `full`, the means of what it sees.
  void Watch(double seconds, FullGpu& full) const;
  // Each on a thread of its own, while this one does `meanwhile`; the first that failed.
  absl::Status Drive(const std::function<absl::Status(size_t)>& driver,
                     const std::function<void()>& meanwhile);

  SteadyClock clock_;
  DeviceSet devices_;                          // until there is a scheduler
  std::vector<const cuda::CudaDevice*> gpus_;  // they are
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<ChainDriver>> drivers_;
  int num_devices_ = 1, b_max_ = 0, b_peak_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GPU_GPU_REQUESTS_H_
