// How the benchmark `step` times whatever can be done over and over: in slices of the process's CPU time. One thread.
#ifndef CELLBATCH_TESTS_BENCH_CPU_SLICES_H_
#define CELLBATCH_TESTS_BENCH_CPU_SLICES_H_

#include <functional>

namespace cellbatch {

// Median time of one run in a slice of CPU time (of the whole process), first 40 % of it dropped; microseconds. Short
// runs are timed several at a time, so that asking for the time takes no part of theirs.
double MedianOfSlice(const std::function<void()>& run, int slice_ms);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_CPU_SLICES_H_
