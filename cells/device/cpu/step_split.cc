#include "cells/device/cpu/step_split.h"

#include <algorithm>

namespace cellbatch {
namespace {

// Below this a step is done before a helper has heard of it; below the other it is not worth waking a parked one.
// In multiply-adds or bytes moved, whichever is more: some 50 of either a nanosecond.
constexpr int64_t kWorthSplitting = 150'000;
constexpr int64_t kWorthWaking = 3'000'000;
// A block is some 5 us: the last one to finish is waited for. But no more of them than this a thread: each starts with
// weights that were prefetched for somebody else.
constexpr int64_t kWorthABlock = 250'000;
constexpr int kBlocksPerThread = 16;
// Fewer blocks than this a thread, and who is slow is waited for.
constexpr int kLeastBlocksPerThread = 2;

// At least two a thread, if the step is worth splitting at all.
int64_t WantedBlocks(int64_t cost, int threads) {
  if (threads == 1 || cost < kWorthSplitting) return 1;
  const auto wanted =
      std::max<int64_t>(cost / kWorthABlock, int64_t{kLeastBlocksPerThread} * threads);
  return std::min(wanted, int64_t{threads} * kBlocksPerThread);
}

}  // namespace

StepSplit SplitProduct(int64_t cost, int panels, int32_t rows, int threads) {
  const int64_t wanted = WantedBlocks(cost, threads);
  if (wanted == 1) return {};
  const auto of_panels = static_cast<int>(std::min<int64_t>(wanted, panels));
  const int64_t least = int64_t{kLeastBlocksPerThread} * threads;
  const int64_t of_rows = std::min<int64_t>((least + of_panels - 1) / of_panels,  //
                                            rows / kLeastRowsOfAPart);
  return {of_panels, static_cast<int>(std::max<int64_t>(of_rows, 1))};
}

StepSplit SplitByRows(int64_t cost, int32_t rows, int threads) {
  return {1, static_cast<int>(std::min<int64_t>(WantedBlocks(cost, threads), rows))};
}

bool IsWorthWaking(int64_t cost) { return cost >= kWorthWaking; }

}  // namespace cellbatch
