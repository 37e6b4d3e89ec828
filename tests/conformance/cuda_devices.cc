// The kinds of devices.h as CUDA devices on emulated GPUs (tests/cuda_emulator): in place of those of devices.cc, in test targets
// of their own, which run under no sanitizer.
#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

#include "cells/check.h"
#include "cells/device/cuda/cuda_device.h"
#include "tests/conformance/devices.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::conformance {
namespace {

// Compiling a cell takes seconds there.
constexpr int kRandomCells = 8;
constexpr uint64_t kBelow64 = uint64_t{0} - 5;

std::shared_ptr<const cuda::CudaApi> Api() {
  static const std::shared_ptr<const cuda::CudaApi> api = [] {
    setenv("CELLBATCH_EMULATED_GPUS", "2", 1);
    auto loaded = cuda::LoadCudaApi(emulator::EmulatedDriverFolder());
    Check(loaded.ok(), loaded.status().ToString());
    return std::shared_ptr<const cuda::CudaApi>(*std::move(loaded));
  }();
  return api;
}

DeviceSetup Cuda(const std::vector<int>& ordinals, const cuda::CudaOptions& options, bool late) {
  const std::shared_ptr<const cuda::CudaApi> api = Api();
  const emulator::EmulatorControl& gpus = emulator::LoadedEmulator();
  gpus.restore();
  gpus.clear_findings();
  for (const int ordinal : ordinals) gpus.delay_writes(ordinal, late ? 3 : 0, 300);
  auto made = cuda::CudaDevices(api, ordinals, options);
  Check(made.ok(), made.status().ToString());
  auto set = std::make_shared<DeviceSet>(*std::move(made));
  DeviceSetup setup;
  setup.memory = set->memories[0].get();
  for (const std::unique_ptr<Device>& d : set->devices) setup.devices.push_back(d.get());
  setup.fail = [&gpus](int) { gpus.lose(0); };
  setup.later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  setup.violations = [] { return emulator::EmulatorFindings(); };
  setup.alive = std::move(set);
  return setup;
}

cuda::CudaOptions Small() {
  cuda::CudaOptions options;
  options.host_block_bytes = int64_t{16} << 20;
  return options;
}

// A ring of few slots, counters that wrap at once, row lists that are read where they are, a given signal.
cuda::CudaOptions Narrow(cuda::SignalBy signal_by) {
  cuda::CudaOptions options = Small();
  options.first_sequence = kBelow64;
  options.memory.queue.slots = 4;
  options.memory.queue.first_signal = 0xfffffffau;
  options.memory.queue.list_ints = 100;
  options.memory.queue.signal_by = signal_by;
  options.memory.choose_signal = false;
  return options;
}

Kind Of(std::string name, std::vector<int> ordinals, const cuda::CudaOptions& options, bool late) {
  Kind kind;
  kind.name = std::move(name);
  kind.num_devices = static_cast<int>(ordinals.size());
  kind.make = [=] { return Cuda(ordinals, options, late); };
  kind.breaks = true;
  kind.random_cells = kRandomCells;
  return kind;
}

}  // namespace

std::vector<Kind> AllKinds() {
  std::vector<Kind> kinds = ComputingKinds();
  kinds.push_back(Of("cuda_signal_kernel", {0}, Narrow(cuda::SignalBy::kSignalKernel), true));
  kinds.push_back(Of("cuda_stream_write", {0}, Narrow(cuda::SignalBy::kStreamWrite), true));
  kinds.push_back(Of("cuda_end_kernel", {0, 0}, Narrow(cuda::SignalBy::kEndKernel), true));
  return kinds;
}

std::vector<Kind> PairKinds() {
  std::vector<Kind> kinds = AllKinds();
  std::erase_if(kinds, [](const Kind& kind) { return kind.num_devices < 2; });
  return kinds;
}

std::vector<Kind> BreakableKinds() { return AllKinds(); }

std::vector<Kind> ComputingKinds() {
  return {Of("cuda", {0}, Small(), false), Of("cuda_two_queues", {0, 0}, Small(), false)};
}

}  // namespace cellbatch::conformance
