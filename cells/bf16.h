// bf16: the upper half of an fp32. Plain functions, any thread.
#ifndef CELLBATCH_CELLS_BF16_H_
#define CELLBATCH_CELLS_BF16_H_

#include <algorithm>
#include <bit>
#include <cstdint>

namespace cellbatch {

// The upper half of the float nearest to `value` that has no lower half, ties to even. What is beyond bf16's range becomes
// infinite. REQUIRES: not NaN.
inline uint16_t RoundedToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float FromBf16(uint16_t upper_half) {
  return std::bit_cast<float>(uint32_t{upper_half} << 16);
}

inline constexpr float kLargestBf16 = 0x1.fep127f;

// Two bf16 whose sum is `value` but for its last 2^-17 or less; an infinite one's lower part is infinite. REQUIRES: not NaN.
struct SplitBf16 {
  explicit SplitBf16(float value)
      : upper(RoundedToBf16(std::clamp(value, -kLargestBf16, kLargestBf16))),
        lower(RoundedToBf16(value - FromBf16(upper))) {}
  uint16_t upper, lower;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_BF16_H_
