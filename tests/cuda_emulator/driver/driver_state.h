// The emulated driver of this process: its GPUs, its memory, and what its handles stand for. Made by the first call of anybody, as
// the environment says (README.md), and there until the process ends, as GPUs have threads.
//
// Any thread.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_STATE_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_STATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/emulated_gpu.h"
#include "tests/cuda_emulator/driver/emulated_memory.h"
#include "tests/cuda_emulator/driver/finding_list.h"
#include "tests/cuda_emulator/driver/gpu_operation.h"
#include "tests/cuda_emulator/driver/handle_table.h"
#include "tests/cuda_emulator/driver/host_writes.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch::emulator {

inline constexpr int kSharedWithoutOptin = 48 << 10, kMostSharedOfGpu = 227 << 10;

// A thing of one context, and no good in any other.
struct OfContext {
  int gpu = 0;
  uint64_t context = 0;
};
struct LoadedImage : OfContext {
  std::shared_ptr<const KernelObject> object;
  std::vector<cuda::Function> functions;  // that were asked for
  std::mutex mutex;
};
struct LoadedFunction : OfContext {
  std::shared_ptr<const KernelObject> object;
  const KernelFunction* function = nullptr;
  std::atomic<int> most_shared = kSharedWithoutOptin;
};
struct CapturedGraph : OfContext {
  OperationList operations;
};

class DriverState {
 public:
  static DriverState& Get();

  cuda::Result Init();
  bool initialized() const { return initialized_.load(); }
  int num_gpus() const { return static_cast<int>(gpus_.size()); }
  EmulatedGpu* gpu(int number) {  // null: there is none
    return number < 0 || number >= num_gpus() ? nullptr : gpus_[static_cast<size_t>(number)].get();
  }

  // What sort of GPU all of them are: Hopper's, unless a test says otherwise.
  std::atomic<int> compute_major = 9, compute_minor = 0, most_shared = kMostSharedOfGpu;
  FindingList findings;
  EmulatedMemory memory;
  HostWrites host_writes;
  HandleTable<EmulatedStream> streams;
  HandleTable<LoadedImage> modules;
  HandleTable<LoadedFunction> functions;
  HandleTable<CapturedGraph> graphs, executions;

 private:
  DriverState();

  std::atomic<bool> initialized_ = false;
  std::vector<std::unique_ptr<EmulatedGpu>> gpus_;
};

// Of the calling thread.
struct CurrentContext {
  EmulatedGpu* gpu = nullptr;
  uint64_t context = 0;  // of that GPU, when it was made current
};
CurrentContext& Current();

// Null, and `result` says why, unless a context is current and has not failed.
EmulatedGpu* UsableGpu(cuda::Result* result);

// Null, and `result` says why, unless the thing is there and of the GPU's context.
template <typename T, typename Handle>
std::shared_ptr<T> Known(const HandleTable<T>& table, Handle handle, const EmulatedGpu& gpu,
                         cuda::Result* result) {
  std::shared_ptr<T> found = table.Find(handle);
  if (found != nullptr && found->gpu == gpu.number() && found->context == gpu.context()) {
    return found;
  }
  *result = kInvalidHandle;
  return nullptr;
}

// CUDA refuses such calls to a thread that captures, and voids the capture. Here they pass, and are findings.
void UnsafeWhileCapturing(const EmulatedGpu& gpu, const char* call);

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_DRIVER_STATE_H_
