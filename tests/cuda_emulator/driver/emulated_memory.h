// The memory of emulated GPUs, and host memory that they reach: all of it this process's own, with a guard on either side that
// is looked at when it is freed, and full of 0xff, which is NaN to who reads what nobody wrote.
//
// Any thread. Costs the time to fill what is allocated: it is resident from the start.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_MEMORY_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/finding_list.h"
#include "tests/cuda_emulator/memory_registry.h"

namespace cellbatch::emulator {

class EmulatedMemory {
 public:
  // `gpu_bytes`: of each GPU. Both outlive it.
  EmulatedMemory(size_t gpu_bytes, FindingList& findings)
      : gpu_bytes_(gpu_bytes), findings_(findings) {}

  // Device memory: aligned to 256 bytes. Host memory: to 64, sometimes to more. What is more than the GPU has: 2.
  cuda::Result Allocate(MemoryKind kind, int gpu, size_t bytes, uintptr_t* start);
  // 1: nothing of that kind was allocated there.
  cuda::Result Free(MemoryKind kind, uintptr_t start);
  // As when its last context goes. What was left is a finding if `leaks`.
  void FreeAllOf(int gpu, bool leaks);

  size_t gpu_bytes() const { return gpu_bytes_; }
  const MemoryRegistry& registry() const { return registry_; }

 private:
  void GiveBack(const MemoryBlock& block);

  const size_t gpu_bytes_;
  FindingList& findings_;
  MemoryRegistry registry_;
  std::mutex mutex_;
  std::map<uintptr_t, std::byte*> bases_;  // where blocks and their guards begin
  size_t allocations_ = 0;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_MEMORY_H_
