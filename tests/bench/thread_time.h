// The time that this thread computed: what runs beside a short, single-threaded measurement does not count.
#ifndef CELLBATCH_TESTS_BENCH_THREAD_TIME_H_
#define CELLBATCH_TESTS_BENCH_THREAD_TIME_H_

#include <time.h>

namespace cellbatch {

inline double ThreadMilliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_THREAD_TIME_H_
