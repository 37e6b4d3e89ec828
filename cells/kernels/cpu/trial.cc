#include "cells/kernels/cpu/trial.h"

#include <time.h>

#include <algorithm>
#include <vector>

namespace cellbatch::kernels {

int64_t ThreadCpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

PackedProduct TrialProduct(int32_t units, int32_t depth, const Packing& packing,
                           Precision precision) {
  constexpr float kWeight = 0.001f;
  const std::vector<float> weights(static_cast<size_t>(depth), kWeight);
  ProductSpec spec;
  spec.units = units;
  spec.groups = kTrialGroups;
  spec.precision = precision;
  SegmentSpec segment{depth, {}};
  std::fill_n(segment.weights, kTrialGroups, WeightView{weights.data(), 0, 1});
  spec.segments = {segment};
  spec.tail = {{{TailOpKind::kAccumulator}, {TailOpKind::kStore, 0}}, 1, 0};
  return PackedProduct(spec, packing);
}

}  // namespace cellbatch::kernels
