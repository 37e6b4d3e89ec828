#include "tests/company/gpu_trials.h"

#include <utility>

#include "cells/check.h"

namespace cellbatch::company {

DeviceSet MakeDevices(std::shared_ptr<const cuda::CudaApi> api, const Trial& trial, Fp32By fp32) {
  cuda::CudaOptions options;
  options.host_block_bytes = int64_t{32} << 20;
  options.memory.fp32 = fp32;
  if (trial.narrow) {
    options.memory.queue.slots = 7;  // comes round within a launch of several tasks
    options.memory.queue.first_signal = 0xffffff00u;
  }
  auto devices = cuda::CudaDevices(std::move(api), trial.ordinals, options);
  Check(devices.ok(), devices.status().ToString());
  return *std::move(devices);
}

}  // namespace cellbatch::company
