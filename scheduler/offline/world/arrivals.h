// When which request comes: what a world is played. Made up as a Poisson process, or recorded somewhere. Plain values.
#ifndef CELLBATCH_SCHEDULER_OFFLINE_WORLD_ARRIVALS_H_
#define CELLBATCH_SCHEDULER_OFFLINE_WORLD_ARRIVALS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cellbatch {

struct Arrival {
  int64_t at_ns = 0;     // from the beginning
  int32_t shape = 0;     // which of the lane's requests it is
  int32_t lane = 0;      // of the world
  int32_t priority = 0;  // as Request has it; 0: its model's default
};

// `count` arrivals at `per_second` in the mean, independent of each other; of `shapes` requests each as often as any other,
// in an order of its own every time they have all come. The same seed makes the same on every machine. REQUIRES: shapes.
std::vector<Arrival> PoissonArrivals(double per_second, size_t count, int32_t shapes, uint64_t seed,
                                     int32_t lane = 0);

// The same requests in the same order, `times` as fast.
std::vector<Arrival> AtAnotherRate(std::vector<Arrival> arrivals, double times);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_OFFLINE_WORLD_ARRIVALS_H_
