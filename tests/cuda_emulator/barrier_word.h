// A barrier in shared memory (cells/kernels/cuda/cluster.cuh) as the emulator keeps it, in the 64 bits that a GPU has for one.
//
//   all arrivals came, and all bytes that were announced  ->  another parity, and as many are missing again
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_BARRIER_WORD_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_BARRIER_WORD_H_

#include <cstdint>

namespace cellbatch::emulator {

inline constexpr int kBulkBytes = 16;  // what is copied in bulk is a multiple of it

struct BarrierWord {
  using Bits = unsigned long long;

  unsigned parity = 0;                 // of what is waited for
  unsigned arrivals = 0, missing = 0;  // in all; of them
  int32_t announced = 0;  // kBulkBytes each: and not yet there. Below 0: they came first

  static BarrierWord Of(Bits bits) {
    return {static_cast<unsigned>(bits >> 63), static_cast<unsigned>(bits >> 48 & 0x7fff),
            static_cast<unsigned>(bits >> 32 & 0xffff), static_cast<int32_t>(bits & 0xffffffff)};
  }
  Bits bits() const {
    return Bits{parity} << 63 | Bits{arrivals} << 48 | Bits{missing} << 32 |
           static_cast<uint32_t>(announced);
  }
  // Whether nothing is missing any more; then it begins anew.
  bool Completes() {
    if (missing != 0 || announced != 0) return false;
    parity ^= 1;
    missing = arrivals;
    return true;
  }
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_BARRIER_WORD_H_
