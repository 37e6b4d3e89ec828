// Claims about the heap that threads share. Its memory here is anybody's; what it is on a GPU's host, cuda_device_test says.
#include "cells/device/cuda/sharded_heap.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kMostKept = int64_t{256} << 10;

struct Block {
  std::byte* at = nullptr;
  int64_t bytes = 0;
  uint8_t mark = 0;
};

void Fill(const Block& block) {
  std::memset(block.at, block.mark, static_cast<size_t>(block.bytes));
}

bool IsFilled(const Block& block) {
  return block.at[0] == std::byte{block.mark} &&
         std::memcmp(block.at, block.at + 1, static_cast<size_t>(block.bytes - 1)) == 0;
}

// A heap, and the memory that it has.
class World {
 public:
  explicit World(int64_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(bytes), std::align_val_t{kLine}))),
        heap_(std::make_unique<ShardedHeap>(memory_, bytes)),
        all_(heap_->FreeBytes()) {}
  ~World() {
    heap_.reset();
    ::operator delete (memory_, std::align_val_t{kLine});
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  ShardedHeap& heap() { return *heap_; }
  bool Holds(const Block& b) const {
    return b.at >= memory_ && b.at + b.bytes <= memory_ + bytes_ &&
           reinterpret_cast<uintptr_t>(b.at) % kLine == 0;
  }
  // As many of a size as there are.
  std::vector<Block> TakeAll(int64_t bytes, int shard) {
    std::vector<Block> taken;
    while (std::byte* const at = heap_->Allocate(bytes, shard)) taken.push_back({at, bytes});
    return taken;
  }
  // What there was at the start, in one piece: all but the tree's lines around it.
  void ExpectWhole() {
    std::byte* const whole = heap_->Allocate(all_ - 2 * kLine, 0);
    EXPECT_NE(whole, nullptr) << all_ << " bytes";
    if (whole != nullptr) heap_->Free(whole, all_ - 2 * kLine, 0);
    EXPECT_EQ(heap_->FreeBytes(), all_);
  }
  int64_t all() const { return all_; }

 private:
  const int64_t bytes_;
  std::byte* const memory_;
  std::unique_ptr<ShardedHeap> heap_;
  const int64_t all_;
};

// Against a map of who has what: everything that is held keeps its bytes and lies apart, and what is refused would be
// refused by a heap that keeps nothing, too.
class Oracle {
 public:
  Oracle(World& world, uint32_t seed) : world_(world), random_(seed) {}

  void Allocate() {
    Block block{nullptr, 1 + static_cast<int64_t>(random_() % (uint64_t{2} << random_() % 19)),
                static_cast<uint8_t>(random_())};
    block.at = world_.heap().Allocate(block.bytes, Shard());
    if (block.at == nullptr) {
      ++refused_;
      world_.heap().FreeBytes();
      ASSERT_EQ(world_.heap().Allocate(block.bytes, Shard()), nullptr) << block.bytes;
      return;
    }
    ASSERT_TRUE(world_.Holds(block)) << block.bytes;
    const auto after = held_.lower_bound(block.at);
    ASSERT_TRUE(after == held_.end() || block.at + block.bytes <= after->first);
    ASSERT_TRUE(after == held_.begin() ||
                std::prev(after)->first + std::prev(after)->second.bytes <= block.at);
    Fill(block);
    held_.emplace(block.at, block);
  }
  void Free() {
    if (held_.empty()) return;
    const auto from = held_.lower_bound(
        held_.begin()->first +
        random_() % static_cast<uint64_t>(held_.rbegin()->first + 1 - held_.begin()->first));
    const Block block = from->second;
    ASSERT_TRUE(IsFilled(block)) << block.bytes;
    held_.erase(from);
    world_.heap().Free(block.at, block.bytes, Shard());
  }
  void FreeAll() {
    while (!held_.empty() && !testing::Test::HasFatalFailure()) Free();
  }
  // Mostly one or the other, by turns, so that there is much and little.
  void Step(int i) {
    if (random_() % 8 < (i / 1000 % 2 == 0 ? 5u : 3u)) {
      Allocate();
    } else {
      Free();
    }
  }
  int refused() const { return refused_; }

 private:
  int Shard() { return static_cast<int>(random_() % ShardedHeap::kShards); }

  World& world_;
  std::mt19937_64 random_;
  std::map<std::byte*, Block> held_;
  int refused_ = 0;
};

TEST(ShardedHeapTest, BlocksAreAlignedApartAndTheirHoldersAlone) {
  int refused = 0;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    World world(int64_t{1} << (19 + seed % 4));
    Oracle oracle(world, seed);
    for (int i = 0; i < 6000; ++i) {
      oracle.Step(i);
      if (HasFatalFailure()) return;
    }
    oracle.FreeAll();
    if (HasFatalFailure()) return;
    world.ExpectWhole();
    refused += oracle.refused();
  }
  EXPECT_GT(refused, 100) << "or nothing was said of a full heap";
}

TEST(ShardedHeapTest, ABlockWastesAFifthOfItselfAndALine) {
  World world(int64_t{1} << 20);
  // Around the most that each size has, and what lies between.
  const int64_t most_lines = kMostKept / kLine;
  for (int64_t lines = 1; lines <= most_lines;
       lines += std::max<int64_t>(
           static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(lines))) / 16, 1)) {
    for (const int64_t bytes : {kLine * lines - kLine + 1, kLine * lines, kLine * lines + 1}) {
      const Block block{world.heap().Allocate(bytes, 0), bytes, 0x5a};
      ASSERT_TRUE(world.Holds(block));
      Fill(block);
      const int64_t taken = world.all() - world.heap().FreeBytes();
      const int64_t whole = (bytes + kLine - 1) / kLine * kLine;
      ASSERT_LE(taken, whole + taken / 5 + kLine) << bytes;
      ASSERT_GE(taken, whole) << bytes;
      ASSERT_TRUE(IsFilled(block)) << "the heap wrote into it";
      world.heap().Free(block.at, bytes, 0);
    }
  }
  world.ExpectWhole();
}

TEST(ShardedHeapTest, WhatNeverFitsIsRefusedAtOnce) {
  World world(int64_t{1} << 20);
  std::byte* const first = world.heap().Allocate(100, 0);
  std::byte* const latest = world.heap().Allocate(100, 0);
  world.heap().Free(first, 100, 0);
  world.heap().Free(latest, 100, 0);
  for (const int64_t bytes : {world.all() + 1, int64_t{1} << 20, int64_t{1} << 40, INT64_MAX}) {
    EXPECT_EQ(world.heap().Allocate(bytes, 0), nullptr) << bytes;
  }
  ASSERT_EQ(world.heap().Allocate(100, 0), latest) << "what was kept was given back for nothing";
  world.heap().Free(latest, 100, 0);
  world.ExpectWhole();
}

TEST(ShardedHeapTest, ABlockComesAgainWhereItWasFreedAndNotElsewhere) {
  World world(int64_t{1} << 20);
  std::byte* const block = world.heap().Allocate(1000, 3);
  world.heap().Free(block, 1000, 5);
  EXPECT_NE(world.heap().Allocate(1000, 3), block);
  EXPECT_EQ(world.heap().Allocate(960, 5), block) << "of the same size";
}

// More than two chains, so that the depot has most: the shard that asks has none of its own.
TEST(ShardedHeapTest, WhatAShardHasTooMuchOfIsForAll) {
  World world(int64_t{4} << 20);
  const std::vector<Block> first = world.TakeAll(1000, 0);
  ASSERT_GT(first.size(), 1000u);
  for (const Block& b : first) world.heap().Free(b.at, b.bytes, 0);
  // None of the other shards can have had them from the tree: it got none back.
  std::vector<Block> again;
  for (size_t i = 0; i + 2 * 32 + 1 <= first.size(); ++i) {
    again.push_back({world.heap().Allocate(1000, 1 + static_cast<int>(i % 31)), 1000});
    ASSERT_NE(again.back().at, nullptr);
  }
  for (const Block& b : again) world.heap().Free(b.at, b.bytes, 7);
  world.ExpectWhole();
}

TEST(ShardedHeapTest, NobodyIsRefusedWhatOtherShardsKeep) {
  World world(int64_t{4} << 20);
  for (const int64_t bytes : {64, 1000, 5000, 70'000}) {
    SCOPED_TRACE(bytes);
    const std::vector<Block> blocks = world.TakeAll(bytes, 0);
    ASSERT_GT(blocks.size(), 10u);
    // Each that is free, by whoever freed it, is the next for another.
    for (int shard = 0; shard < ShardedHeap::kShards; ++shard) {
      const Block& one = blocks[static_cast<size_t>(shard) % blocks.size()];
      world.heap().Free(one.at, bytes, shard);
      ASSERT_EQ(world.heap().Allocate(bytes, (shard + 9) % ShardedHeap::kShards), one.at);
      ASSERT_EQ(world.heap().Allocate(bytes, shard), nullptr);
    }
    // All of them, everywhere: another size has it all.
    for (size_t i = 0; i < blocks.size(); ++i) {
      world.heap().Free(blocks[i].at, bytes, static_cast<int>(i % ShardedHeap::kShards));
    }
    world.ExpectWhole();
    ASSERT_FALSE(HasFailure());
  }
}

// There is a block for each thread and not one more, so whenever a thread asks one is free: in the tree, the depot, a
// shard, or on its way between them.
TEST(ShardedHeapTest, WhatIsFreeIsFoundHoweverItMoves) {
  constexpr int kThreads = 4, kRounds = 4000;
  for (const int64_t bytes : {int64_t{1000}, kMostKept}) {  // chains of 32, and of 1
    World world(int64_t{4} << 20);
    const std::vector<Block> others = world.TakeAll(bytes, 0);
    ASSERT_GT(others.size(), static_cast<size_t>(kThreads));
    for (size_t i = 0; i < kThreads; ++i) {  // apart from each other
      world.heap().Free(others[2 * i].at, bytes, static_cast<int>(i));
    }
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(static_cast<uint32_t>(t));
        for (int i = 0; i < kRounds; ++i) {
          std::byte* const at = world.heap().Allocate(bytes, static_cast<int>(random() % 6));
          if (at == nullptr) {
            ++refused;
            continue;
          }
          std::memset(at, t, 64);
          if (random() % 16 == 0) std::this_thread::yield();
          EXPECT_EQ(at[random() % 64], static_cast<std::byte>(t));
          world.heap().Free(at, bytes, i % 2 == 0 ? 0 : static_cast<int>(random() % 6));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(refused, 0) << "though a block was free";
    for (size_t i = 0; i < others.size(); ++i) {
      if (i % 2 == 0 && i < 2 * kThreads) continue;
      world.heap().Free(others[i].at, bytes, 0);
    }
    world.ExpectWhole();
  }
}

// Blocks on their way from those who allocate to those who free.
class Channel {
 public:
  void Put(const Block& block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(block);
  }
  bool Take(Block* block) {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return false;
    *block = blocks_.front();
    blocks_.pop_front();
    return true;
  }

 private:
  std::mutex mutex_;
  std::deque<Block> blocks_;
};

TEST(ShardedHeapTest, SomeThreadsAllocateWhatOthersFree) {
  constexpr int kPairs = 3, kBlocks = 15'000;
  World world(int64_t{1} << 20);  // less than those who free may leave lying
  Channel channel;
  std::atomic<int> freed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kPairs; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kBlocks;) {
        Block block{nullptr, 1 + static_cast<int64_t>(random() % (128u << random() % 8)),
                    static_cast<uint8_t>(random())};
        block.at = world.heap().Allocate(block.bytes, t);
        if (block.at == nullptr) {
          std::this_thread::yield();
          continue;
        }
        EXPECT_TRUE(world.Holds(block));
        Fill(block);
        channel.Put(block);
        ++i;
      }
    });
    threads.emplace_back([&, t] {
      Block block;
      while (freed < kPairs * kBlocks) {
        if (!channel.Take(&block)) {
          std::this_thread::yield();
          continue;
        }
        EXPECT_TRUE(IsFilled(block));
        world.heap().Free(block.at, block.bytes, kPairs + t);
        ++freed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  world.ExpectWhole();
}

}  // namespace
}  // namespace cellbatch::cuda
