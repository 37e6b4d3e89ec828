// The kinds of devices.h as CUDA devices on this machine's GPUs, for programs that tests/gpu/check brings there; no test of
// tests/run. CUDA is looked for in the folder that CELLBATCH_CUDA_LIBRARIES names, then where the system finds libraries. Nothing
// breaks on purpose: a GPU that is lost is lost for whoever else uses it.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "cells/check.h"
#include "cells/device/cuda/cuda_inventory.h"
#include "tests/conformance/cuda_kinds.h"
#include "tests/conformance/devices.h"

namespace cellbatch::conformance {
namespace {

constexpr int kRandomCells = 20;  // NVRTC takes up to a second each

const absl::StatusOr<std::shared_ptr<const cuda::CudaApi>>& Loaded() {
  static const absl::StatusOr<std::shared_ptr<const cuda::CudaApi>> api =
      []() -> absl::StatusOr<std::shared_ptr<const cuda::CudaApi>> {
    const char* const folder = std::getenv("CELLBATCH_CUDA_LIBRARIES");
    auto loaded = cuda::LoadCudaApi(folder == nullptr ? "" : folder);
    if (!loaded.ok()) return loaded.status();
    return std::shared_ptr<const cuda::CudaApi>(*std::move(loaded));
  }();
  return api;
}

DeviceSetup OfThisMachine(const CudaKind& kind) {
  Check(Loaded().ok(), Loaded().status().ToString());
  return CudaSetup(*Loaded(), kind);
}

size_t NumGpus() {
  if (!Loaded().ok()) return 0;
  const auto gpus = cuda::FindGpus(**Loaded());
  return gpus.ok() ? gpus->size() : 0;
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
