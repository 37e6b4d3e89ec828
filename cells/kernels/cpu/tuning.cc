#include "cells/kernels/cpu/tuning.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "cells/device/cpu/cpu_features.h"
#include "cells/kernels/cpu/trial.h"

namespace cellbatch::kernels {
namespace {

constexpr int kDepth = 1024;
constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int64_t kPanelBytes = int64_t{kDepth} * kTrialGroups * kLanes * sizeof(float);
constexpr int kPiecePanels = static_cast<int>(kPieceBytes / kPanelBytes);
constexpr int kMostTurns = 5;
constexpr const char* kNames[kNumWays] = {"as usual",   "undisturbed", "paired",
                                          "prefetched", "spread",      "short"};

// Rows that stand for their class.
constexpr int RowsOf(int row_class) {
  constexpr int kOfMore[] = {12, 16, 32, 64};
  static_assert(std::size(kOfMore) == Tuning::kRowClasses - kMostBlockRows - 1);
  return row_class <= kMostBlockRows ? row_class : kOfMore[row_class - kMostBlockRows - 1];
}
constexpr int kMostRows = RowsOf(Tuning::kRowClasses - 1);

// How much faster than the usual way another has to be, and after how long no further turn begins.
struct Bar {
  int64_t one_of;
  int64_t enough_ns;
};
constexpr Bar kNearBar = {10, 50'000'000}, kFarBar = {16, 60'000'000};

// The best times of each way of one class.
using Best = int64_t[kNumWays];

// A product of `pieces` pieces, whose weights are all alike, and rows for it.
class Trial {
 public:
  Trial(const CpuKernels& kernels, int64_t pieces, int64_t cache_bytes)
      : kernels_(kernels),
        product_(TrialProduct(static_cast<int32_t>(pieces) * kPiecePanels * kLanes, kDepth,
                              kernels.packing)),
        y_(static_cast<size_t>(kMostRows) * static_cast<size_t>(product_.units())) {
    for (int way = 0; way < kNumWays; ++way) {
      Tuning all;
      all.near.fill(static_cast<StreamWay>(way));
      all.far.fill(static_cast<StreamWay>(way));
      all.cache_bytes = cache_bytes;  // the usual way is that of so many weights
      scratch_.emplace_back(all);
    }
  }

  Tuning::Ways Fastest(const Bar& bar) {
    Best best[Tuning::kRowClasses];
    std::fill_n(&best[0][0], sizeof(best) / sizeof(int64_t), INT64_MAX);
    const int64_t begin = ThreadCpuNs();
    for (int turn = 0; turn < kMostTurns; ++turn) {
      if (turn > 1 && ThreadCpuNs() - begin > bar.enough_ns) break;
      for (int c = 1; c < Tuning::kRowClasses; ++c) {
        const uint32_t ways = kernels_.ways(RowsOf(c));
        if (std::popcount(ways) < 2) continue;
        for (int way = 0; way < kNumWays; ++way) {
          const bool there = way == 0 || (ways >> way & 1) != 0;
          if (there) best[c][way] = std::min(best[c][way], NsOfPiece(RowsOf(c), way));
        }
      }
    }
    Tuning::Ways fastest = {};
    for (int c = 1; c < Tuning::kRowClasses; ++c) {
      const int64_t usual = best[c][0], *const least =
                                            std::min_element(best[c], best[c] + kNumWays);
      if (*least < usual - usual / bar.one_of) {
        fastest[static_cast<size_t>(c)] = static_cast<StreamWay>(least - best[c]);
      }
    }
    return fastest;
  }

 private:
  // The next piece in turn.
  int64_t NsOfPiece(int rows, int way) {
    const RowSource in{x_.data(), 0};
    const RowColumn out{y_.data(), product_.units()};
    const int first = next_;
    next_ = (next_ + kPiecePanels) % product_.num_panels();
    const int64_t start = ThreadCpuNs();
    kernels_.run_product(product_, {rows, &in, nullptr, &out}, first, first + kPiecePanels,
                         &scratch_[static_cast<size_t>(way)]);
    return ThreadCpuNs() - start;
  }

  const CpuKernels& kernels_;
  const PackedProduct product_;
  const std::vector<float> x_ = std::vector<float>(kDepth, 0.5f);
  std::vector<float> y_;
  std::vector<ProductScratch> scratch_;
  int next_ = 0;  // panel
};

bool HasChoice(const CpuKernels& kernels) {
  for (int c = 1; c < Tuning::kRowClasses; ++c) {
    if (std::popcount(kernels.ways(RowsOf(c))) > 1) return true;
  }
  return false;
}

std::string Describe(const Tuning::Ways& ways) {
  std::string text;
  for (int c = 1; c < Tuning::kRowClasses; ++c) {
    const StreamWay way = ways[static_cast<size_t>(c)];
    if (way == StreamWay::kUsual) continue;
    const int least = Tuning::MostRowsOf(c - 1) + 1, most = Tuning::MostRowsOf(c);
    text += std::to_string(least);
    if (most > least) text += "-";
    if (most > least && c + 1 < Tuning::kRowClasses) text += std::to_string(most);
    text += std::string(": ") + kNames[static_cast<int>(way)] + ", ";
  }
  return text.empty() ? kNames[0] : text + "else " + kNames[0];
}

}  // namespace

Tuning MeasureTuning(const CpuKernels& kernels, const TuningLimits& limits) {
  Tuning tuning;
  tuning.cache_bytes = DetectCpuFeatures().l3_bytes;
  tuning.core_cache_bytes = DetectCpuFeatures().l2_bytes;
  if (!HasChoice(kernels)) return tuning;
  const int64_t cache = tuning.cache_bytes;
  tuning.near = Trial(kernels, cache / 2 >= 2 * kPieceBytes ? 2 : 1, 0).Fastest(kNearBar);
  const int64_t pieces = (cache + cache / 2 + kPieceBytes - 1) / kPieceBytes;
  if (cache <= 0 || pieces * kPieceBytes > limits.memory_bytes) return tuning;
  tuning.far = Trial(kernels, pieces, cache).Fastest(kFarBar);
  return tuning;
}

double MeasureMultiplyAddsPerNs(const CpuKernels& kernels) {
  constexpr int kRuns = 20;
  const PackedProduct product = TrialProduct(kLanes, kDepth, kernels.packing);
  const std::vector<float> x(kDepth, 0.5f);
  std::vector<float> y(size_t{kMostRows} * kLanes);
  const RowSource in{x.data(), 0};
  const RowColumn out{y.data(), kLanes};
  ProductScratch scratch;
  int64_t least = INT64_MAX;
  for (int i = 0; i < kRuns; ++i) {
    const int64_t start = ThreadCpuNs();
    kernels.run_product(product, {kMostRows, &in, nullptr, &out}, 0, 1, &scratch);
    least = std::min(least, ThreadCpuNs() - start);
  }
  const auto multiply_adds = static_cast<double>(product.multiply_adds() * kMostRows);
  return multiply_adds / static_cast<double>(std::max<int64_t>(least, 1));
}

std::string Describe(const Tuning& tuning) {
  const std::string near = Describe(tuning.near), far = Describe(tuning.far);
  return near == far ? near : near + "; from memory " + far;
}

}  // namespace cellbatch::kernels
