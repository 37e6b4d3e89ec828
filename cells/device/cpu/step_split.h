// Into how many blocks a step is split, which the cores of a team pull: by columns first (panels of a product), for each
// weight is then read by one core; by rows as well where there are too few panels for the cores (an LSTM of 256 units has
// 16 panels, enough for 8 cores).
//
//              panel 0  panel 1  panel 2
//   rows  0-31 [  0  ]  [  2  ]  [  4  ]        blocks of the same weights one behind the other
//   rows 32-63 [  1  ]  [  3  ]  [  5  ]
//
// From which step on that pays is of a machine and its kernels, and measured at load (split_costs.h).
// Plain values; any thread. No bit of any result depends on it.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_STEP_SPLIT_H_
#define CELLBATCH_CELLS_DEVICE_CPU_STEP_SPLIT_H_

#include <cstdint>

namespace cellbatch {

struct Part {
  int32_t begin = 0, end = 0;
  int32_t size() const { return end - begin; }
};

// Number `part` of `parts` nearly equal ones of [0, all).
inline Part PartOf(int32_t all, int parts, int part) {
  return {static_cast<int32_t>(int64_t{all} * part / parts),
          static_cast<int32_t>(int64_t{all} * (part + 1) / parts)};
}

struct StepSplit {
  int panels = 1, rows = 1;  // parts of each
  int blocks() const { return panels * rows; }
  Part PanelsOf(int block, int32_t all) const { return PartOf(all, panels, block / rows); }
  Part RowsOf(int block, int32_t all) const { return PartOf(all, rows, block % rows); }
};

// A part of a product's rows has at least so many: with fewer, a core reads weights for little work.
inline constexpr int32_t kLeastRowsOfAPart = 16;

// What a team of cores is like. As it stands: of an AVX2 machine, for who does not measure.
struct SplitCosts {
  double per_ns = 50;     // multiply-adds of one core, or bytes that it moves, a nanosecond
  double fork_ns = 300;   // a step in which every thread, all of them awake, has a block of nothing
  double wake_ns = 30e3;  // from the call that wakes it until a parked helper computes
};

// A step is split if one core has so many forks' time to do: with two cores half of it is won, less a fork, and less what
// a core takes longer that finds rows in another's cache.
inline constexpr double kForksOfAStep = 10;
// A sleeping helper that is woken comes in time for half of a step so long.
inline constexpr double kWakesOfAStep = 2;

// `cost`: multiply-adds or bytes moved, whichever is more. REQUIRES: panels, rows and threads >= 1.
StepSplit SplitProduct(int64_t cost, int panels, int32_t rows, int threads,
                       const SplitCosts& costs);
// Of a step that computes each row from that row alone.
StepSplit SplitByRows(int64_t cost, int32_t rows, int threads, const SplitCosts& costs);

// Whether helpers that sleep are woken for it.
bool IsWorthWaking(int64_t cost, const SplitCosts& costs);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_STEP_SPLIT_H_
