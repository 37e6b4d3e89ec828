// The trials of gpu_trials.h on emulated GPUs, whose operations are late at random and whose streams, threads and blocks run in
// an order that a trial's seed draws.
#include <utility>

#include "tests/company/gpu_trials.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::company {

std::vector<Trial> Trials() {
  return {{.name = "Gpus1", .ordinals = {0}, .seed = 1, .requests = kRequests / 5, .narrow = true},
          {.name = "Gpus2",
           .ordinals = {0, 1},
           .seed = 2,
           .requests = kRequests * 2 / 5,
           .narrow = true},
          {.name = "Gpus4",
           .ordinals = {0, 1, 2, 3},
           .seed = 3,
           .requests = kRequests * 2 / 5,
           .narrow = true},
          {.name = "Gpus2Checked",
           .ordinals = {0, 1},
           .seed = 6,
           .requests = 1000,
           .plans = 40,
           .narrow = true,
           .checked = true}};
}

DeviceSet GpusOf(const Trial& trial) {
  const std::shared_ptr<const cuda::CudaApi> api = emulator::EmulatedApi(4);
  const emulator::EmulatorControl& gpus = emulator::LoadedEmulator();
  gpus.restore();
  gpus.set_seed(trial.seed);
  gpus.set_checks(trial.checked);
  DeviceSet devices = MakeDevices(api, trial, Fp32By::kFma);  // emulated, the faster one
  for (const int gpu : trial.ordinals) gpus.delay_writes(gpu, 20, 100);
  return devices;
}

std::vector<std::string> Findings() { return emulator::EmulatorFindings(); }

}  // namespace cellbatch::company
