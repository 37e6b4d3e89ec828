// Claims about the memory of blocks.
#include "scheduler/block_pool.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(BlockPoolTest, BlocksAreAlignedAndLieApart) {
  std::mt19937 random(1);
  std::map<std::byte*, size_t> blocks;  // by address: bytes
  for (int i = 0; i < 3000; ++i) {
    const size_t bytes = 1 + random() % (size_t{2} << (8 + i % 12));
    auto* const block = static_cast<std::byte*>(NewBlock(bytes));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % kBlockAlignment, 0u);
    std::memset(block, i, bytes);
    ASSERT_TRUE(blocks.emplace(block, bytes).second);
    if (i % 3 == 0) {
      DeleteBlock(blocks.begin()->first, blocks.begin()->second);
      blocks.erase(blocks.begin());
    }
  }
  std::byte* end = nullptr;
  for (const auto& [block, bytes] : blocks) {
    EXPECT_GE(block, end);
    end = block + bytes;
  }
  for (const auto& [block, bytes] : blocks) DeleteBlock(block, bytes);
}

TEST(BlockPoolTest, NoBlockWastesMoreThanHalfItsSizeAndAKilobyte) {
  for (size_t bytes = 1; bytes <= kLargestPooledBlock + 1; ++bytes) {
    const size_t taken = PooledBytes(bytes);
    ASSERT_GE(taken, bytes);
    ASSERT_LE(taken, bytes + bytes / 2 + 1024) << bytes;
  }
}

// Made by one thread, freed by another, as requests are.
TEST(BlockPoolTest, ThreadsNeverHoldTheSameBlock) {
  constexpr int kThreads = 4, kRounds = 20'000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      std::vector<std::pair<uint64_t*, size_t>> held;
      for (int i = 0; i < kRounds; ++i) {
        const size_t bytes = 1024 + random() % 8192;
        auto* const block = static_cast<uint64_t*>(NewBlock(bytes));
        *block = static_cast<uint64_t>(t) << 32 | static_cast<uint32_t>(i);
        held.emplace_back(block, bytes);
        if (held.size() < 16) continue;
        const size_t gone = random() % held.size();
        EXPECT_EQ(*held[gone].first >> 32, static_cast<uint64_t>(t));
        DeleteBlock(held[gone].first, held[gone].second);
        held[gone] = held.back();
        held.pop_back();
      }
      for (const auto& [block, bytes] : held) DeleteBlock(block, bytes);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace cellbatch
