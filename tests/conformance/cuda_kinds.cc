#include "tests/conformance/cuda_kinds.h"

#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "cells/check.h"

namespace cellbatch::conformance {
namespace {

constexpr uint64_t kBelow64 = uint64_t{0} - 5;

cuda::CudaOptions Small() {
  cuda::CudaOptions options;
  options.host_block_bytes = int64_t{16} << 20;
  return options;
}

// Emulated, these are the faster ones: for what is about queues, launches and signals rather than numbers.
cuda::CudaOptions ByFma() {
  cuda::CudaOptions options = Small();
  options.memory.fp32 = Fp32By::kFma;
  return options;
}

// A ring of 7 slots comes round within a launch of several tasks.
cuda::CudaOptions Narrow(cuda::SignalBy signal_by, int tasks_a_launch) {
  cuda::CudaOptions options = ByFma();
  options.first_sequence = kBelow64;
  options.memory.queue.slots = tasks_a_launch == 1 ? 4 : 7;
  options.memory.queue.tasks_a_launch = tasks_a_launch;
  options.memory.queue.first_signal = 0xfffffffau;
  options.memory.queue.list_ints = 100;
  options.memory.queue.signal_by = signal_by;
  options.memory.choose_signal = false;
  return options;
}

}  // namespace

std::vector<CudaKind> CudaKinds() {
  return {{"cuda", {0}, Small()},
          {"cuda_two_queues", {0, 0}, ByFma()},
          {"cuda_fma", {0}, ByFma()},
          {"cuda_signal_kernel", {0}, Narrow(cuda::SignalBy::kSignalKernel, 4), true},
          {"cuda_stream_write", {0}, Narrow(cuda::SignalBy::kStreamWrite, 4), true},
          {"cuda_end_kernel", {0, 0}, Narrow(cuda::SignalBy::kEndKernel, 4), true},
          {"cuda_two_a_launch", {0}, Narrow(cuda::SignalBy::kEndKernel, 2), true},
          {"cuda_one_a_launch", {0, 0}, Narrow(cuda::SignalBy::kEndKernel, 1), true}};
}

DeviceSetup CudaSetup(std::shared_ptr<const cuda::CudaApi> api, const CudaKind& kind) {
  auto made = cuda::CudaDevices(std::move(api), kind.ordinals, kind.options);
  Check(made.ok(), made.status().ToString());
  auto set = std::make_shared<DeviceSet>(*std::move(made));
  DeviceSetup setup;
  setup.memory = set->memories[0].get();
  for (const std::unique_ptr<Device>& d : set->devices) setup.devices.push_back(d.get());
  setup.later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  setup.alive = std::move(set);
  return setup;
}

Kind KindOf(const CudaKind& cuda, std::function<DeviceSetup()> make) {
  Kind kind;
  kind.name = cuda.name;
  kind.num_devices = static_cast<int>(cuda.ordinals.size());
  kind.make = std::move(make);
  return kind;
}

}  // namespace cellbatch::conformance
