// y = W x + b by the kernels of GPUs, emulated: W and the rows are the test's, b is zero.
#ifndef CELLBATCH_TESTS_CUDA_KERNELS_LINEAR_TRIAL_H_
#define CELLBATCH_TESTS_CUDA_KERNELS_LINEAR_TRIAL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cuda/cuda_limits.h"
#include "tests/cuda_kernels/emulated_cell.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_trial.h"

namespace cellbatch {

// One thread at a time.
class LinearTrial {
 public:
  static constexpr int32_t kNodes = 9, kUnits = 20;  // more than an instruction of either

  explicit LinearTrial(int32_t depth, EmulatedOptions options = {},
                       Precision precision = Precision::kFp32)
      : emulated_(std::move(options)),
        trial_(testing::LinearCell(depth, kUnits), 5, kernels::BestKernels(DetectCpuFeatures()),
               Options(precision)),
        depth_(depth) {
    std::fill_n(Parameter("b"), kUnits, 0.0f);
  }

  float* x(int32_t node) { return trial_.columns().inputs[0][0].At(node * 7 % kNodes); }
  // Written before the first run.
  float& w(int32_t unit, int32_t k) { return Parameter("W")[int64_t{unit} * depth_ + k]; }
  // Of all weights and all rows, in turn.
  void Fill(const std::function<float()>& weight, const std::function<float()>& value) {
    for (int32_t u = 0; u < kUnits; ++u) {
      for (int32_t k = 0; k < depth_; ++k) w(u, k) = weight();
    }
    for (int32_t n = 0; n < kNodes; ++n) {
      for (int32_t k = 0; k < depth_; ++k) x(n)[k] = value();
    }
  }

  std::vector<float> Left(int32_t node) { return trial_.Left(node)[0]; }
  void Run() { trial_.Run(kNodes); }
  // Of all nodes; empty: they agree.
  std::string RunAndCompare() {
    Run();
    std::string all;
    for (int32_t n = 0; n < kNodes; ++n) all += trial_.Disagreement(n);
    return all;
  }
  std::vector<std::string> Findings() const { return emulated_.Findings(); }

 private:
  float* Parameter(const std::string& name) {
    const auto parameters = trial_.type().definition->parameters();
    size_t p = 0;
    while (parameters[p].name != name) ++p;
    return const_cast<float*>(trial_.type().weights[p].data.get());
  }
  testing::TrialOptions Options(Precision precision) {
    testing::TrialOptions options;
    options.rows = kNodes;
    options.limits = kCudaLimits;
    options.precision = precision;
    options.run = emulated_.Runner();
    return options;
  }

  EmulatedCell emulated_;
  testing::CellTrial trial_;
  const int32_t depth_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_CUDA_KERNELS_LINEAR_TRIAL_H_
