// While one lives, this thread's arithmetic takes denormal operands (0 < |x| < 2^-126) for zeros and makes zeros of
// denormal results, signs kept. A denormal costs some CPUs 150 cycles an operation, and a state that decays towards zero
// brings thousands of them; and kernels may differ in what becomes of one. Moving a value (load, store, copy) changes no
// bit of it.
//
// Scalar and vector instructions alike (MXCSR: FTZ and DAZ), float and double. The thread's mode of before comes back at
// the end. Two instructions each way; kernels themselves do not set it: whoever runs them does (cells/device/device.h).
#ifndef CELLBATCH_CELLS_KERNELS_CPU_FLUSH_DENORMALS_H_
#define CELLBATCH_CELLS_KERNELS_CPU_FLUSH_DENORMALS_H_

#include <xmmintrin.h>

namespace cellbatch::kernels {

class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 1u << 15, kDenormalsAreZero = 1u << 6;
  const unsigned before_;
};

}  // namespace cellbatch::kernels

#endif  // CELLBATCH_CELLS_KERNELS_CPU_FLUSH_DENORMALS_H_
