// The emulated driver from the side of tests: where its libraries lie, and the control of the one that this process has loaded.
//
//   const auto api = emulator::EmulatedApi(2);
//   emulator::LoadedEmulator().hang(0, true);
//
// Any thread.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/emulator_control.h"

namespace cellbatch::emulator {

// Absolute. In a test that Bazel runs.
std::string EmulatedDriverFolder();

// The driver of so many GPUs, loaded; of so many bytes each (0: README.md, CELLBATCH_EMULATED_GPU_BYTES). A process has one:
// who asks again is given the first. Ends the process where it cannot be loaded.
std::shared_ptr<const cuda::CudaApi> EmulatedApi(int gpus, int64_t bytes_each = 0);

// REQUIRES: this process has loaded the driver, from there. Ends the process if not.
const EmulatorControl& LoadedEmulator();

// All findings so far.
std::vector<std::string> EmulatorFindings();

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_
