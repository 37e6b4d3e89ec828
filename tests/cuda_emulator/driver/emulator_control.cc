#include "tests/cuda_emulator/driver/emulator_control.h"

#include <cstdio>
#include <string>

#include "tests/cuda_emulator/driver/driver_state.h"

namespace cellbatch::emulator {
namespace {

template <typename F>
void WithGpu(int number, const F& f) {
  EmulatedGpu* const gpu = DriverState::Get().gpu(number);
  if (gpu != nullptr) f(*gpu);
}

template <typename F>
void WithEachGpu(const F& f) {
  for (int i = 0; i < DriverState::Get().num_gpus(); ++i) f(*DriverState::Get().gpu(i));
}

size_t Finding(size_t i, char* to, size_t bytes) {
  const std::string what = DriverState::Get().findings.At(i);
  if (bytes > 0) std::snprintf(to, bytes, "%s", what.c_str());
  return what.size();
}

long long Launches(int number) {
  long long launches = 0;
  WithGpu(number, [&](EmulatedGpu& gpu) { launches = gpu.launches(); });
  return launches;
}

void SetSort(int major, int minor, int most_shared) {
  DriverState& state = DriverState::Get();
  state.compute_major = major;
  state.compute_minor = minor;
  state.most_shared = most_shared;
}

constexpr EmulatorControl kControl = {
    .set_seed = [](uint64_t seed) { WithEachGpu([&](EmulatedGpu& gpu) { gpu.SetSeed(seed); }); },
    .hang = [](int gpu, bool hangs) { WithGpu(gpu, [&](EmulatedGpu& g) { g.Hang(hangs); }); },
    .lose = [](int gpu) { WithGpu(gpu, [](EmulatedGpu& g) { g.Lose(); }); },
    .fail_launch =
        [](int gpu, long long after) {
          WithGpu(gpu, [&](EmulatedGpu& g) { g.FailLaunch(after); });
        },
    .delay_writes =
        [](int gpu, int one_in, int most_us) {
          WithGpu(gpu, [&](EmulatedGpu& g) { g.Delay(one_in, most_us); });
        },
    .set_sort = SetSort,
    .restore = [] { WithEachGpu([](EmulatedGpu& gpu) { gpu.Restore(); }); },
    .set_checks = [](bool on) { WithEachGpu([&](EmulatedGpu& gpu) { gpu.SetChecks(on); }); },
    .num_findings = [] { return DriverState::Get().findings.size(); },
    .finding = Finding,
    .clear_findings = [] { DriverState::Get().findings.Clear(); },
    .live_bytes = [](int gpu) -> long long {
      return DriverState::Get().memory.registry().LiveBytes(gpu);
    },
    .launches = Launches,
};

}  // namespace

extern "C" const EmulatorControl* cellbatch_emulator() { return &kControl; }

}  // namespace cellbatch::emulator
