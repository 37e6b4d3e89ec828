// The emulated driver from the side of tests: where its libraries lie, and the control of the one that this process has loaded.
//
//   setenv("CELLBATCH_EMULATED_GPUS", "2", 1);                before the first call of the driver; README.md has them all
//   auto api = cuda::LoadCudaApi(emulator::EmulatedDriverFolder());
//   emulator::LoadedEmulator().hang(0, true);
//
// Any thread.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_

#include <string>
#include <vector>

#include "tests/cuda_emulator/driver/emulator_control.h"

namespace cellbatch::emulator {

// Absolute. In a test that Bazel runs.
std::string EmulatedDriverFolder();

// REQUIRES: this process has loaded the driver, from there. Ends the process if not.
const EmulatorControl& LoadedEmulator();

// All findings so far.
std::vector<std::string> EmulatorFindings();

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_EMULATED_GPUS_H_
