#include "cells/device/cpu/home_ranges.h"

#include "cells/check.h"
#include "cells/device/cpu/step_split.h"

namespace cellbatch {
namespace {

struct Left {
  uint32_t step;
  Part blocks;
};

uint64_t Packed(const Left& left) {
  return uint64_t{left.step} << 32 | static_cast<uint64_t>(left.blocks.begin) << 16 |
         static_cast<uint64_t>(left.blocks.end);
}

Left Unpacked(uint64_t word) {
  return {static_cast<uint32_t>(word >> 32),
          {static_cast<int32_t>(word >> 16 & 0xffff), static_cast<int32_t>(word & 0xffff)}};
}

// The word of a thread that had no block for 2^31 steps would seem one of the future: every so many steps all are brought up
// to date.
constexpr uint32_t kUpkeep = uint32_t{1} << 20;

// In the word of what was opened, beside the number of blocks.
constexpr uint64_t kFromLast = uint64_t{1} << 31;

}  // namespace

HomeRanges::HomeRanges(int threads, uint32_t before)
    : threads_((Check(threads >= 1, "a team has at least the caller's thread"), threads)),
      words_(std::make_unique<Word[]>(static_cast<size_t>(threads))),
      opened_(uint64_t{before} << 32) {
  for (int t = 0; t < threads; ++t) words_[static_cast<size_t>(t)].value = Packed({before, {}});
}

void HomeRanges::Open(int blocks, From from) {
  Check(blocks >= 0 && blocks <= kMostBlocks, "a step has at most 65535 blocks");
  const uint32_t before = Opened().number, number = before + 1;
  if (number % kUpkeep == 0) {
    for (int t = 0; t < threads_; ++t) words_[static_cast<size_t>(t)].value = Packed({before, {}});
  }
  opened_.store(uint64_t{number} << 32 | (from == From::kLast ? kFromLast : 0) |
                static_cast<uint32_t>(blocks));
}

HomeRanges::Step HomeRanges::Opened() const {
  const uint64_t word = opened_.load();
  return {static_cast<uint32_t>(word >> 32), static_cast<int32_t>(word & kMostBlocks),
          (word & kFromLast) != 0 ? From::kLast : From::kFirst};
}

// A step that is over has no range left to take from: each one that had blocks carries its number or a later one, and is
// empty. So a thread that comes late takes nothing, and what it takes is of a step that waits for it.
int HomeRanges::Take(const Step& step, int thread, bool last) {
  std::atomic<uint64_t>& word = words_[static_cast<size_t>(thread)].value;
  uint64_t seen = word.load();
  for (;;) {
    Left left = Unpacked(seen);
    const auto steps_ago = static_cast<int32_t>(step.number - left.step);
    if (steps_ago < 0) return -1;
    if (steps_ago > 0) left = {step.number, PartOf(step.blocks, threads_, thread)};
    if (left.blocks.size() == 0) return -1;
    const int block = last ? --left.blocks.end : left.blocks.begin++;
    if (word.compare_exchange_weak(seen, Packed(left))) return block;
  }
}

}  // namespace cellbatch
