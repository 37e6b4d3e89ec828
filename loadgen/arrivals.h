// When requests are to be sent: the whole schedule of a run, made from a seed before the run begins.
// Pure functions; the same options give the same schedule on every machine.

#ifndef CELLBATCH_LOADGEN_ARRIVALS_H_
#define CELLBATCH_LOADGEN_ARRIVALS_H_

#include <cstdint>
#include <random>
#include <vector>

namespace cellbatch {

enum class ArrivalProcess {
  kPoisson,   // independent, exponential gaps: what many strangers do together
  kConstant,  // equal gaps: for measuring the generator itself
};

struct ArrivalOptions {
  ArrivalProcess process = ArrivalProcess::kPoisson;
  double rate = 100;    // requests a second, positive
  double seconds = 10;  // arrivals lie in [0, seconds)
  uint64_t seed = 1;
};

// Nanoseconds from the run's start, in order. O(rate * seconds).
std::vector<int64_t> MakeArrivals(const ArrivalOptions& options);

// Uniform in [0, 1), 53 bits; the standard library's own distributions differ between libraries.
inline double UniformFrom(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_ARRIVALS_H_
