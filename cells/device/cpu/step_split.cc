#include "cells/device/cpu/step_split.h"

#include <algorithm>

namespace cellbatch {
namespace {

// The last block to finish is waited for, so blocks are short, but beginning one takes time, too: each has its own tail, and a
// core meets its weights anew. No more of them a thread than the second figure: nothing is won by that.
constexpr double kForksOfABlock = 16;
constexpr int kBlocksPerThread = 16;
// Fewer blocks than this a thread, and who is slow is waited for.
constexpr int kLeastBlocksPerThread = 2;

// At least two a thread, if the step is worth splitting at all.
int64_t WantedBlocks(int64_t cost, int threads, const SplitCosts& costs) {
  const double ns = static_cast<double>(cost) / costs.per_ns;
  if (threads == 1 || ns < kForksOfAStep * costs.fork_ns) return 1;
  const auto wanted = std::max(static_cast<int64_t>(ns / (kForksOfABlock * costs.fork_ns)),
                               int64_t{kLeastBlocksPerThread} * threads);
  return std::min(wanted, int64_t{threads} * kBlocksPerThread);
}

}  // namespace

StepSplit SplitProduct(int64_t cost, int panels, int32_t rows, int threads,
                       const SplitCosts& costs) {
  const int64_t wanted = WantedBlocks(cost, threads, costs);
  if (wanted == 1) return {};
  const auto of_panels = static_cast<int>(std::min<int64_t>(wanted, panels));
  const int64_t least = int64_t{kLeastBlocksPerThread} * threads;
  const int64_t of_rows = std::min<int64_t>((least + of_panels - 1) / of_panels,  //
                                            rows / kLeastRowsOfAPart);
  return {of_panels, static_cast<int>(std::max<int64_t>(of_rows, 1))};
}

StepSplit SplitByRows(int64_t cost, int32_t rows, int threads, const SplitCosts& costs) {
  return {1, static_cast<int>(std::min<int64_t>(WantedBlocks(cost, threads, costs), rows))};
}

bool IsWorthWaking(int64_t cost, const SplitCosts& costs) {
  return static_cast<double>(cost) / costs.per_ns >= kWakesOfAStep * costs.wake_ns;
}

}  // namespace cellbatch
