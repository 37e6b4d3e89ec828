#include "cells/kernels/cpu/tuning.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace cellbatch::kernels {
namespace {

int64_t ThreadCpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

}  // namespace

Tuning MeasureTuning(const CpuKernels& kernels) {
  constexpr int kUnits = 1024, kDepth = 1024, kTurns = 5;
  // So few that the two ways are two: rows that must pass over a panel twice prefetch either way.
  const int rows = (kernels.rows_streamed_once + 1) / 2;
  if (rows == 0) return {};  // no number of rows meets a choice
  const std::vector<float> weights(size_t{kUnits} * kDepth, 0.001f), x(kDepth, 0.5f);
  ProductSpec spec;
  spec.units = kUnits;
  spec.groups = 4;
  SegmentSpec segment{kDepth, {}};
  std::fill_n(segment.weights, 4, WeightView{weights.data(), kDepth, 1});
  spec.segments = {segment};
  spec.tail = {{{TailOpKind::kAccumulator}, {TailOpKind::kStore, 0}}, 1, 0};
  const PackedProduct product(spec);
  std::vector<float> y(static_cast<size_t>(rows) * kUnits);
  const RowSource in{x.data(), 0};
  const RowColumn out{y.data(), kUnits};
  const ProductArgs args{rows, &in, nullptr, &out};

  ProductScratch scratch[2] = {ProductScratch({false}), ProductScratch({true})};
  int64_t best[2] = {INT64_MAX, INT64_MAX};
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int way = 0; way < 2; ++way) {
      const int64_t start = ThreadCpuNs();
      kernels.run_product(product, args, 0, product.num_panels(), &scratch[way]);
      best[way] = std::min(best[way], ThreadCpuNs() - start);
    }
  }
  return {best[1] < best[0]};
}

}  // namespace cellbatch::kernels
