// How many of something there are at each level from 0 to kMost, and the highest and the lowest level with any. O(1).
#ifndef CELLBATCH_SCHEDULER_READY_LEVELS_H_
#define CELLBATCH_SCHEDULER_READY_LEVELS_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cellbatch {

class Levels {
 public:
  static constexpr int32_t kMost = 4095;

  Levels() : counts_(kMost + 1, 0) {}
  // n: negative to take away.
  void Add(int32_t level, int64_t n) {
    const size_t at = static_cast<size_t>(level), word = at / 64;
    const uint64_t bit = 1ull << at % 64;
    counts_[at] += n;
    words_[word] = counts_[at] != 0 ? words_[word] | bit : words_[word] & ~bit;
    used_ = words_[word] != 0 ? used_ | 1ull << word : used_ & ~(1ull << word);
  }
  int64_t at(int32_t level) const { return counts_[static_cast<size_t>(level)]; }
  int32_t top() const {  // 0: empty, or nothing above
    if (used_ == 0) return 0;
    const int word = 63 - std::countl_zero(used_);
    return 64 * word + 63 - std::countl_zero(words_[static_cast<size_t>(word)]);
  }
  int32_t bottom() const {  // -1: empty
    if (used_ == 0) return -1;
    const int word = std::countr_zero(used_);
    return 64 * word + std::countr_zero(words_[static_cast<size_t>(word)]);
  }

 private:
  std::vector<int64_t> counts_;
  std::array<uint64_t, (kMost + 1) / 64> words_ = {};  // bits: levels with any
  uint64_t used_ = 0;                                  // bits: words with any
};
static_assert((Levels::kMost + 1) / 64 == 64);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_READY_LEVELS_H_
