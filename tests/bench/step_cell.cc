#include "tests/bench/step_cell.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace cellbatch {
namespace {

using kernels::PackedMemory;

// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'); columns c, c', h'.
TailProgram Gates() {
  using K = TailOpKind;
  return {{{K::kAccumulator, -1, -1, 0},
           {K::kSigmoid, 0},
           {K::kAccumulator, -1, -1, 1},
           {K::kSigmoid, 2},
           {K::kAccumulator, -1, -1, 2},
           {K::kTanh, 4},
           {K::kAccumulator, -1, -1, 3},
           {K::kSigmoid, 6},
           {K::kColumn, -1, -1, 0},
           {K::kMul, 3, 8},
           {K::kMul, 1, 5},
           {K::kAdd, 9, 10},
           {K::kTanh, 11},
           {K::kMul, 7, 12},
           {K::kStore, 11, -1, 1},
           {K::kStore, 13, -1, 2}},
          3,
          0};
}

}  // namespace

StepRows::StepRows(int h, int b, uint64_t seed)
    : h_(h),
      b_(b),
      stride_(kernels::PaddedStride(h)),
      slots_(int64_t{2} * b + 16),
      x_(stride_ * slots_),
      hidden_(stride_ * slots_),
      cell_(stride_ * slots_) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::generate_n(x_.data(), x_.size(), [&] { return uniform(random); });
  std::vector<int32_t> all(static_cast<size_t>(slots_));
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  now_.assign(all.begin(), all.begin() + b);
  next_.assign(all.begin() + b, all.begin() + 2 * b);
  std::shuffle(all.begin(), all.end(), random);
  input_.assign(all.begin(), all.begin() + b);
}

StepWeights::StepWeights(int units, uint64_t seed) : h(units) {
  std::mt19937_64 random(seed);
  const float scale = 1.0f / std::sqrt(static_cast<float>(h));
  std::uniform_real_distribution<float> uniform(-scale, scale);
  for (std::vector<float>* w : {&input, &recurrent}) {
    w->resize(size_t{4} * h * h);
    std::generate(w->begin(), w->end(), [&] { return uniform(random); });
  }
}

PackedMemory StepWeights::ForProducts() const {
  PackedMemory all(int64_t{8} * h * h);
  for (int g = 0; g < 4; ++g) {
    for (int u = 0; u < h; ++u) {
      const int64_t column = (u / 16 * 4 + g) * 16 + u % 16, row = int64_t{g} * h + u;
      for (int k = 0; k < h; ++k) {
        all.data()[int64_t{k} * 4 * h + column] = input[row * h + k];
        all.data()[int64_t{h + k} * 4 * h + column] = recurrent[row * h + k];
      }
    }
  }
  return all;
}

std::vector<float> StepWeights::ByInput(const std::vector<float>& weights) const {
  std::vector<float> turned(weights.size());
  for (int64_t row = 0; row < int64_t{4} * h; ++row) {
    for (int64_t k = 0; k < h; ++k) turned[k * 4 * h + row] = weights[row * h + k];
  }
  return turned;
}

kernels::ProductSpec StepWeights::Spec(bool with_terms) const {
  kernels::ProductSpec spec;
  spec.units = h;
  spec.groups = 4;
  spec.tail = Gates();
  if (!with_terms) return spec;
  for (const std::vector<float>* w : {&input, &recurrent}) {
    kernels::SegmentSpec segment{h, {}};
    for (int g = 0; g < 4; ++g) segment.weights[g] = {w->data() + int64_t{g} * h * h, h, 1};
    spec.segments.push_back(segment);
  }
  return spec;
}

}  // namespace cellbatch
