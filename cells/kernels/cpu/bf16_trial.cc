#include "cells/kernels/cpu/bf16_trial.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cells/kernels/cpu/product.h"
#include "cells/kernels/cpu/rows.h"
#include "cells/kernels/cpu/trial.h"

namespace cellbatch::kernels {
namespace {

constexpr int kDepth = 256, kRows = 48, kTurns = 12;
constexpr float kInput = 0.5f;

// One panel, all weights and inputs alike.
class Trial {
 public:
  explicit Trial(const CpuKernels& kernels)
      : kernels_(kernels),
        product_(TrialProduct(kLanes, kDepth, kernels.packing, Precision::kBf16)) {
    const std::vector<float> row(kDepth, kInput);
    kernels.round_to_bf16({row.data(), 0}, kDepth, 1, {x_.data(), kDepth});
  }

  int64_t Ns() {
    const RowSource in{x_.data(), 0};
    const RowColumn out{y_.data(), kLanes};
    const int64_t start = ThreadCpuNs();
    kernels_.run_product(product_, {kRows, &in, nullptr, &out}, 0, 1, &scratch_);
    return ThreadCpuNs() - start;
  }

 private:
  const CpuKernels& kernels_;
  const PackedProduct product_;
  std::vector<float> x_ = std::vector<float>(kDepth);  // in pairs half of it
  std::vector<float> y_ = std::vector<float>(size_t{kRows} * kLanes);
  ProductScratch scratch_;
};

}  // namespace

bool IsFasterInBf16(const CpuKernels& other, const CpuKernels& one) {
  Trial others(other), ones(one);
  int64_t others_best = INT64_MAX, ones_best = INT64_MAX;
  for (int turn = 0; turn < kTurns; ++turn) {
    ones_best = std::min(ones_best, ones.Ns());
    others_best = std::min(others_best, others.Ns());
  }
  return others_best < ones_best - ones_best / 10;
}

}  // namespace cellbatch::kernels
