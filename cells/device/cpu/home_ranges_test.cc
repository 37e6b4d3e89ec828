#include "cells/device/cpu/home_ranges.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "cells/device/cpu/step_split.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

constexpr int kMostThreads = 128;
constexpr double kNever = 1e30;

// Against lists of blocks, whoever asks for what in whichever order; steps wrap meanwhile, and late comers ask for blocks of
// steps that are over.
TEST(HomeRangesTest, AsListsOfBlocks) {
  for (const uint32_t before : {0u, 0xffff'ff80u, 0x7fff'ff80u, (1u << 20) - 100}) {
    std::mt19937 random(before + 1);
    const int threads = 1 + static_cast<int>(random() % 9);
    HomeRanges ranges(threads, before);
    HomeRanges::Step late = ranges.Opened();
    for (int s = 0; s < 300; ++s) {
      const int blocks = static_cast<int>(random() % 40);
      const bool from_last = random() % 2 == 0;
      ranges.Open(blocks, from_last ? HomeRanges::From::kLast : HomeRanges::From::kFirst);
      const HomeRanges::Step step = ranges.Opened();
      ASSERT_EQ(step.number, before + static_cast<uint32_t>(s) + 1);
      ASSERT_EQ(step.blocks, blocks);
      ASSERT_EQ(step.from == HomeRanges::From::kLast, from_last);
      std::vector<std::deque<int>> left(static_cast<size_t>(threads));
      for (int t = 0; t < threads; ++t) {
        const Part home = PartOf(blocks, threads, t);
        for (int b = home.begin; b < home.end; ++b) left[static_cast<size_t>(t)].push_back(b);
      }
      for (int taken = 0; taken < blocks;) {
        const int t = static_cast<int>(random() % static_cast<unsigned>(threads));
        std::deque<int>& list = left[static_cast<size_t>(t)];
        ASSERT_EQ(ranges.TakeNext(late, t), -1);
        const bool own = random() % 2 == 0, last = own == from_last;
        const int block = own ? ranges.TakeNext(step, t) : ranges.TakeFarthest(step, t);
        ASSERT_EQ(block, list.empty() ? -1 : last ? list.back() : list.front());
        if (block < 0) continue;
        ++taken;
        last ? list.pop_back() : list.pop_front();
      }
      for (int t = 0; t < threads; ++t) ASSERT_EQ(ranges.TakeFarthest(step, t), -1);
      late = step;
    }
  }
}

// A step of so many blocks by cores of which each takes its own time for one, as CoreTeam runs it: who is done first
// takes next.
struct Outcome {
  std::vector<int> ran_by;  // by block
  double seconds = 0;       // of cores that come back
};

Outcome Simulate(HomeRanges& ranges, int blocks, const std::vector<double>& block_seconds) {
  const int threads = ranges.threads();
  Outcome outcome;
  outcome.ran_by.assign(static_cast<size_t>(blocks), -1);
  ranges.Open(blocks);
  const HomeRanges::Step step = ranges.Opened();
  std::vector<double> free_at(static_cast<size_t>(threads), 0.0);
  const auto take = [&](int thread) {
    if (const int own = ranges.TakeNext(step, thread); own >= 0) return own;
    for (int i = 1; i < threads; ++i) {
      const int other = ranges.TakeFarthest(step, (thread + i) % threads);
      if (other >= 0) return other;
    }
    return -1;
  };
  for (int left = blocks; left > 0; --left) {
    const auto next = std::min_element(free_at.begin(), free_at.end());
    const auto thread = static_cast<size_t>(next - free_at.begin());
    const int block = take(static_cast<int>(thread));
    EXPECT_GE(block, 0) << "blocks are left, and nobody has them";
    if (block < 0) return outcome;
    EXPECT_EQ(outcome.ran_by[static_cast<size_t>(block)], -1) << "block " << block << " ran twice";
    outcome.ran_by[static_cast<size_t>(block)] = static_cast<int>(thread);
    *next += block_seconds[thread];
    if (*next < kNever) outcome.seconds = std::max(outcome.seconds, *next);
  }
  return outcome;
}

int Strays(const Outcome& outcome, int threads) {
  int strays = 0;
  const auto blocks = static_cast<int32_t>(outcome.ran_by.size());
  for (int t = 0; t < threads; ++t) {
    const Part home = PartOf(blocks, threads, t);
    for (int b = home.begin; b < home.end; ++b)
      strays += outcome.ran_by[static_cast<size_t>(b)] != t;
  }
  return strays;
}

TEST(HomeRangesTest, OnQuietCoresNoBlockLeavesHome) {
  for (int threads = 1; threads <= kMostThreads; ++threads) {
    HomeRanges ranges(threads, 0);
    for (const int each : {1, 2, 7, 16}) {
      const std::vector<double> alike(static_cast<size_t>(threads), 1.0);
      const Outcome outcome = Simulate(ranges, threads * each, alike);
      EXPECT_EQ(Strays(outcome, threads), 0) << threads << " threads";
      EXPECT_DOUBLE_EQ(outcome.seconds, each);
    }
  }
}

// A neighbour takes a core for good in the middle of a block: nothing but that block waits for it.
TEST(HomeRangesTest, WhatACoreThatIsGoneHasNotTakenOthersTake) {
  for (int threads = 2; threads <= kMostThreads; ++threads) {
    HomeRanges ranges(threads, 0);
    for (const int gone : {0, threads / 2, threads - 1}) {
      constexpr int kEach = 8;
      std::vector<double> block_seconds(static_cast<size_t>(threads), 1.0);
      block_seconds[static_cast<size_t>(gone)] = kNever;
      const Outcome outcome = Simulate(ranges, threads * kEach, block_seconds);
      EXPECT_EQ(std::count(outcome.ran_by.begin(), outcome.ran_by.end(), gone), 1);
      EXPECT_EQ(Strays(outcome, threads), kEach - 1) << "nobody else's blocks moved";
      const double fair = static_cast<double>(threads * kEach - 1) / (threads - 1);
      EXPECT_LE(outcome.seconds, fair + 1) << threads << " threads, without " << gone;
    }
  }
}

// A slow core keeps the front of its range, step after step the same blocks.
TEST(HomeRangesTest, ASlowCoreLosesItsFarEnd) {
  for (int threads = 2; threads <= kMostThreads; threads += 3) {
    HomeRanges ranges(threads, 0);
    constexpr int kEach = 16;
    std::vector<double> block_seconds(static_cast<size_t>(threads), 1.0);
    const int slow = threads / 2;
    block_seconds[static_cast<size_t>(slow)] = 2.0;
    for (int s = 0; s < 3; ++s) {
      const Outcome outcome = Simulate(ranges, threads * kEach, block_seconds);
      const Part home = PartOf(threads * kEach, threads, slow);
      const auto first = outcome.ran_by.begin() + home.begin, end = first + home.size();
      const auto lost = std::find_if(first, end, [&](int thread) { return thread != slow; });
      EXPECT_GE(lost - first, kEach / 2) << "it had the time for those";
      EXPECT_EQ(std::count(lost, end, slow), 0) << "its own is the front, all of it";
      EXPECT_EQ(Strays(outcome, threads), end - lost);
      // The work over the speed of all, and at most one block of the slow one more.
      EXPECT_LE(outcome.seconds, threads * kEach / (threads - 0.5) + 2.0);
    }
  }
}

// Cores of any speeds: a greedy schedule ends at most one block after the ideal one.
TEST(HomeRangesTest, AnySpeedsEndOneBlockAfterTheIdealAtMost) {
  constexpr uint32_t kSeed = 3;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 300; ++i) {
    const int threads = 1 + static_cast<int>(random() % kMostThreads);
    HomeRanges ranges(threads, 0);
    std::vector<double> block_seconds;
    double rate = 0, slowest = 0;
    for (int t = 0; t < threads; ++t) {
      block_seconds.push_back(0.5 + static_cast<double>(random() % 1000) / 100);
      rate += 1 / block_seconds.back();
      slowest = std::max(slowest, block_seconds.back());
    }
    const int blocks = threads * (1 + static_cast<int>(random() % 16));
    const Outcome outcome = Simulate(ranges, blocks, block_seconds);
    EXPECT_LE(outcome.seconds, blocks / rate + slowest) << threads << " threads";
  }
}

}  // namespace
}  // namespace cellbatch
