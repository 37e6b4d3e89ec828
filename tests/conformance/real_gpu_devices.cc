// The kinds of devices.h as CUDA devices on this machine's GPUs, for programs that tests/gpu/check brings there; no test of
// tests/run. Nothing breaks on purpose: a GPU that is lost is lost for whoever else uses it.
#include <algorithm>
#include <utility>

#include "cells/check.h"
#include "tests/conformance/cuda_kinds.h"
#include "tests/conformance/devices.h"
#include "tests/conformance/real_cuda.h"

namespace cellbatch::conformance {
namespace {

constexpr int kRandomCells = 20;  // NVRTC takes up to a second each

DeviceSetup OfThisMachine(const CudaKind& kind) {
  Check(LoadedCuda().ok(), LoadedCuda().status().ToString());
  return CudaSetup(*LoadedCuda(), kind);
}

// On the first GPU all; where there is a second one, "second_gpu_cuda" and so on, too.
std::vector<Kind> Kinds(bool narrow_too) {
  std::vector<CudaKind> known = CudaKinds();
  for (CudaKind cuda : CudaKinds()) {
    if (NumGpus() < 2) break;
    cuda.name = "second_gpu_" + cuda.name;
    std::fill(cuda.ordinals.begin(), cuda.ordinals.end(), 1);
    known.push_back(std::move(cuda));
  }
  std::vector<Kind> kinds;
  for (const CudaKind& cuda : known) {
    if (cuda.narrow && !narrow_too) continue;
    kinds.push_back(KindOf(cuda, [=] { return OfThisMachine(cuda); }));
    kinds.back().random_cells = kRandomCells;
  }
  return kinds;
}

}  // namespace

std::vector<Kind> AllKinds() { return Kinds(true); }

std::vector<Kind> ComputingKinds() { return Kinds(false); }

}  // namespace cellbatch::conformance
