// What streams are made of: one thing that a GPU does, with all it needs. Never changes once made, so that a graph and the
// streams it was launched on share it. Plain data, any thread.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_OPERATION_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "tests/cuda_emulator/grid_runner.h"
#include "tests/cuda_emulator/kernel_object.h"

namespace cellbatch::emulator {

struct alignas(16) ArgumentWord {
  std::byte bytes[16];
};

struct KernelLaunch {
  std::shared_ptr<const KernelObject> object;
  const KernelFunction* function = nullptr;
  Grid grid;
  std::vector<ArgumentWord> arguments;  // as they were at the launch, each from a word of its own
};

struct MemoryCopy {
  uintptr_t to = 0, from = 0;
  size_t bytes = 0;
  bool to_pageable = false,
       from_pageable = false;          // memory that CUDA has not allocated: not looked up
  std::vector<std::byte> staged = {};  // if any: instead of what `from` holds when the copy runs
};

struct MemoryFill {
  uintptr_t to = 0;
  size_t bytes = 0;
  unsigned char value = 0;
};

struct SignalWrite {
  uintptr_t to = 0;
  uint32_t value = 0;
};

using GpuOperation = std::variant<KernelLaunch, MemoryCopy, MemoryFill, SignalWrite>;
using OperationList = std::vector<std::shared_ptr<const GpuOperation>>;

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_GPU_OPERATION_H_
