// The trials of gpu_trials.h on this machine's GPUs: no test of tests/run. Nothing breaks on purpose: a GPU that is lost is lost
// for whoever else uses it.
#include <utility>

#include "cells/check.h"
#include "tests/company/gpu_trials.h"
#include "tests/conformance/real_cuda.h"

namespace cellbatch::company {

std::vector<Trial> Trials() {
  std::vector<Trial> trials = {
      {.name = "OneWorker", .ordinals = {0}, .seed = 1, .requests = kRequests / 5},
      {.name = "OneWorkerNarrow",
       .ordinals = {0},
       .seed = 2,
       .requests = kRequests / 5,
       .narrow = true},
      {.name = "TwoWorkers", .ordinals = {0, 0}, .seed = 3, .requests = kRequests * 3 / 10},
      {.name = "TwoWorkersNarrow",
       .ordinals = {0, 0},
       .seed = 4,
       .requests = kRequests * 3 / 10,
       .narrow = true},
      // Is the program itself right? tests/gpu/check --quick.
      {.name = "Few", .ordinals = {0, 0}, .seed = 6, .requests = 200, .plans = 20, .narrow = true}};
  if (conformance::NumGpus() >= 2) {
    trials.push_back({.name = "TwoGpus", .ordinals = {0, 1}, .seed = 5, .requests = kRequests / 5});
  }
  return trials;
}

DeviceSet GpusOf(const Trial& trial) {
  const auto& api = conformance::LoadedCuda();
  Check(api.ok(), api.status().ToString());
  return MakeDevices(*api, trial, cuda::CudaMemoryOptions().fp32);
}

std::vector<std::string> Findings() { return {}; }

}  // namespace cellbatch::company
