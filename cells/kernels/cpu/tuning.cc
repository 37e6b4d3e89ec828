#include "cells/kernels/cpu/tuning.h"

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"

namespace cellbatch::kernels {
namespace {

int64_t ThreadCpuNs() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

constexpr int kUnits = 512, kDepth = 1024;
constexpr int kMostTurns = 5;
constexpr int64_t kEnoughNs = 20000000;  // no other turn begins later
constexpr StreamWay kWays[] = {StreamWay::kUsual, StreamWay::kUndisturbed, StreamWay::kPaired,
                               StreamWay::kPrefetched};
constexpr int kNumWays = 4;

// The best times of each way, by rows.
struct Best {
  int64_t ns[kMostBlockRows + 1][kNumWays];
};

StreamWay Fastest(const int64_t (&ns)[kNumWays]) {
  const int64_t* const best = std::min_element(ns, ns + kNumWays);
  return *best < ns[0] - ns[0] / 8 ? kWays[best - ns] : StreamWay::kUsual;
}

}  // namespace

Tuning MeasureTuning(const CpuKernels& kernels) {
  const int most_rows = kernels.rows_streamed_once;
  Tuning tuning;
  tuning.cache_bytes = DetectCpuFeatures().l3_bytes;
  if (most_rows == 0) return tuning;  // no number of rows meets a choice
  const std::vector<float> weights(kDepth, 0.001f), x(kDepth, 0.5f);
  ProductSpec spec;
  spec.units = kUnits;
  spec.groups = 4;
  SegmentSpec segment{kDepth, {}};
  std::fill_n(segment.weights, 4, WeightView{weights.data(), 0, 1});  // all units' are the same
  spec.segments = {segment};
  spec.tail = {{{TailOpKind::kAccumulator}, {TailOpKind::kStore, 0}}, 1, 0};
  const PackedProduct product(spec);
  std::vector<float> y(static_cast<size_t>(most_rows) * kUnits);
  const RowSource in{x.data(), 0};
  const RowColumn out{y.data(), kUnits};

  std::vector<ProductScratch> scratch;
  for (const StreamWay way : kWays) {
    Tuning all;
    all.way.fill(way);
    scratch.emplace_back(all);
  }
  Best best;
  std::fill_n(&best.ns[0][0], sizeof(best) / sizeof(int64_t), INT64_MAX);
  const int64_t begin = ThreadCpuNs();
  for (int turn = 0; turn < kMostTurns; ++turn) {
    if (turn > 1 && ThreadCpuNs() - begin > kEnoughNs) break;
    for (int rows = 1; rows <= most_rows; ++rows) {
      const ProductArgs args{rows, &in, nullptr, &out};
      for (int way = 0; way < kNumWays; ++way) {
        const int64_t start = ThreadCpuNs();
        kernels.run_product(product, args, 0, product.num_panels(),
                            &scratch[static_cast<size_t>(way)]);
        best.ns[rows][way] = std::min(best.ns[rows][way], ThreadCpuNs() - start);
      }
    }
  }
  for (int rows = 1; rows <= most_rows; ++rows) {
    tuning.way[static_cast<size_t>(rows)] = Fastest(best.ns[rows]);
  }
  return tuning;
}

std::string Describe(const Tuning& tuning) {
  constexpr const char* kNames[] = {"as usual", "undisturbed", "paired", "prefetched"};
  std::string text;
  for (size_t rows = 1; rows < tuning.way.size(); ++rows) {
    if (tuning.way[rows] == StreamWay::kUsual) continue;
    text += std::to_string(rows) + ": " + kNames[static_cast<int>(tuning.way[rows])] + ", ";
  }
  return text.empty() ? kNames[0] : text + "else " + kNames[0];
}

}  // namespace cellbatch::kernels
