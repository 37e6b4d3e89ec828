// What company_cuda_test.cc tries, and on which GPUs: emulated_trials.cc for the test, real_trials.cc for the program that
// tests/gpu/check brings to a machine with GPUs.
//
//   company_cuda_test    emulated_trials.cc    + lost_gpu_test.cc      one, two and four GPUs, late at random
//   company_gpu          real_trials.cc                                one and two workers of a GPU; two GPUs where there are
#ifndef CELLBATCH_TESTS_COMPANY_GPU_TRIALS_H_
#define CELLBATCH_TESTS_COMPANY_GPU_TRIALS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cuda/cuda_device.h"
#include "cells/device/device.h"

namespace cellbatch::company {

// Of all trials of a program that are for the number's sake.
inline constexpr int64_t kRequests = 100'000;

struct Trial {
  std::string name;
  std::vector<int> ordinals;  // a worker for each; the same GPU twice: two workers of one card
  uint64_t seed = 1;
  int64_t requests = 0;
  int plans = 200;
  bool narrow = false;   // soon around: slots of the ring, and the signal's counter
  bool checked = false;  // emulated: every access of every kernel is looked at, three times as long
};

std::vector<Trial> Trials();

// The GPUs of a trial, whole again if they were lost. Ends the process where they cannot be had.
DeviceSet GpusOf(const Trial& trial);

// What the GPUs noticed so far that nobody may do; real ones notice nothing.
std::vector<std::string> Findings();

// For the two above: devices as the trial asks for.
DeviceSet MakeDevices(std::shared_ptr<const cuda::CudaApi> api, const Trial& trial, Fp32By fp32);

}  // namespace cellbatch::company

#endif  // CELLBATCH_TESTS_COMPANY_GPU_TRIALS_H_
