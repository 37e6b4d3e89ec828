// bf16: the upper half of an fp32. Plain function, any thread.
#ifndef CELLBATCH_CELLS_BF16_H_
#define CELLBATCH_CELLS_BF16_H_

#include <bit>
#include <cstdint>

namespace cellbatch {

// The upper half of the float nearest to `value` that has no lower half, ties to even. What is beyond bf16's range becomes
// infinite. REQUIRES: not NaN.
inline uint16_t RoundedToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_BF16_H_
