// Somebody else's work on one of our cores, for benchmarks that say what it costs.
#ifndef CELLBATCH_TESTS_BENCH_NEIGHBOUR_H_
#define CELLBATCH_TESTS_BENCH_NEIGHBOUR_H_

#include <atomic>
#include <thread>

namespace cellbatch {

// Computes on `cpu`, without rest, as long as it lives.
class Neighbour {
 public:
  explicit Neighbour(int cpu);
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// The longest that a thread which wants `cpu` was kept off it by a Neighbour, in a second: the system's time slice.
double LongestSliceSeconds(int cpu);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_NEIGHBOUR_H_
