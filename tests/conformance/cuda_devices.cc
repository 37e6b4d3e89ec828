// The kinds of devices.h as CUDA devices on emulated GPUs (tests/cuda_emulator): in place of those of devices.cc, in test targets
// of their own, which run under no sanitizer.
#include <utility>

#include "tests/conformance/cuda_kinds.h"
#include "tests/conformance/devices.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::conformance {
namespace {

// Compiling a cell takes seconds there.
constexpr int kRandomCells = 8;

// What narrow ones write comes late, too.
DeviceSetup Emulated(const CudaKind& kind) {
  const std::shared_ptr<const cuda::CudaApi> api = emulator::EmulatedApi(2);
  const emulator::EmulatorControl& gpus = emulator::LoadedEmulator();
  gpus.restore();
  gpus.clear_findings();
  for (const int ordinal : kind.ordinals) gpus.delay_writes(ordinal, kind.narrow ? 3 : 0, 300);
  DeviceSetup setup = CudaSetup(api, kind);
  setup.fail = [&gpus](int) { gpus.lose(0); };
  setup.violations = [] { return emulator::EmulatorFindings(); };
  return setup;
}

std::vector<Kind> Kinds(bool narrow_too) {
  std::vector<Kind> kinds;
  for (const CudaKind& cuda : CudaKinds()) {
    if (cuda.narrow && !narrow_too) continue;
    Kind kind = KindOf(cuda, [=] { return Emulated(cuda); });
    kind.breaks = true;
    kind.random_cells = kRandomCells;
    kind.slow = true;
    kind.for_numbers = cuda.options.memory.fp32 != Fp32By::kFma;
    kinds.push_back(std::move(kind));
  }
  return kinds;
}

}  // namespace

std::vector<Kind> AllKinds() { return Kinds(true); }

std::vector<Kind> ComputingKinds() { return Kinds(false); }

}  // namespace cellbatch::conformance
