// Comparing a device's signal with the number of a task, safe where counters wrap.
//
// A device counts as wide as it can write in one store; `WidenSignal` extends what was read to 64 bits, given that
// fewer than half the counter's range of tasks are done between two readings. Free, any thread.
#ifndef CELLBATCH_CELLS_DEVICE_SIGNAL_H_
#define CELLBATCH_CELLS_DEVICE_SIGNAL_H_

#include <cstdint>

namespace cellbatch {

// Whether task `sequence` is done when the device's signal reads `signal`.
constexpr bool SignalPassed(uint64_t signal, uint64_t sequence) {
  return static_cast<int64_t>(signal - sequence) >= 0;
}

// The 64-bit signal after `before` of which the device shows the low `bits` bits as `shown`.
constexpr uint64_t WidenSignal(uint64_t before, uint64_t shown, int bits) {
  if (bits >= 64) return shown;
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  return before + ((shown - before) & mask);
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_SIGNAL_H_
