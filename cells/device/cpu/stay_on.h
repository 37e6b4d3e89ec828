// Which CPUs a thread may run on: what lies near them is what it touched first there.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_STAY_ON_H_
#define CELLBATCH_CELLS_DEVICE_CPU_STAY_ON_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

namespace cellbatch {

// The calling thread, and those that it starts, from now on. False where that is not permitted, or no CPU is named: it runs
// where it may.
bool StayOn(absl::Span<const int> cpus);

// Runs `work` on a thread of its own that stays on `cpus`, and waits for it; the caller stays where it is. No CPUs: on the
// caller's thread. What it throws is the caller's to catch.
void RunOn(absl::Span<const int> cpus, absl::FunctionRef<void()> work);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_STAY_ON_H_
