#include "cells/device/cuda/sharded_heap.h"

#include <algorithm>
#include <bit>
#include <boost/interprocess/mem_algo/rbtree_best_fit.hpp>
#include <boost/interprocess/sync/mutex_family.hpp>
#include <new>
#include <utility>

#include "cells/check.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kLine = 64;
constexpr int64_t kLeastBytes = 4096;
constexpr int64_t kMostKeptBytes = int64_t{256} << 10;
// A chain is so many bytes, but one block at least, and of small blocks not more than it takes to make the depot rare.
constexpr int64_t kChainBytes = int64_t{64} << 10;
constexpr int64_t kMostInChain = 32;

// Sizes are 1, 2, 3 and 4 lines, and from there 5, 6, 7 and 8 times each power of two.
int SizeOf(int64_t bytes) {
  const auto lines = static_cast<uint64_t>(std::max<int64_t>((bytes + kLine - 1) / kLine, 1));
  const int shift = std::max(static_cast<int>(std::bit_width(lines - 1)) - 3, 0);
  return 4 * shift + static_cast<int>((lines - 1) >> shift);
}

constexpr int64_t BytesOf(int size) {
  const int shift = std::max(size / 4 - 1, 0);
  return (int64_t{size - 4 * shift + 1} << shift) * kLine;
}

constexpr int ChainOf(int size) {
  return static_cast<int>(std::clamp<int64_t>(kChainBytes / BytesOf(size), 1, kMostInChain));
}

// Locks of a step, while all are held.
constexpr auto NoLocks = [](const auto&) { return 0; };

}  // namespace

// It lies at the start of its memory; with blocks that all begin at a line, so where one was freed another of its size fits.
class ShardedHeap::Tree {
 public:
  Tree(std::byte* memory, int64_t bytes)
      : fit_(new (memory) BestFit(static_cast<size_t>(bytes), /*extra_hdr_bytes=*/0)) {}
  ~Tree() { fit_->~BestFit(); }

  // With the mutex locked.
  std::byte* Allocate(int64_t bytes) {
    return static_cast<std::byte*>(fit_->allocate(static_cast<size_t>(bytes)));
  }
  void Free(void* block) { fit_->deallocate(block); }
  int64_t free_bytes() const { return static_cast<int64_t>(fit_->get_free_memory()); }

  std::mutex mutex;

 private:
  using BestFit = boost::interprocess::rbtree_best_fit<boost::interprocess::null_mutex_family,
                                                       void*, size_t{kLine}>;
  BestFit* const fit_;
};

// What a shard or, while it is locked, a depot keeps may go to the tree.
class ShardedHeap::StepLocks {
 public:
  StepLocks(Shard& shard, Tree& tree) : shard_(shard.mutex), tree_(tree.mutex) {}

 private:
  const std::lock_guard<std::mutex> shard_, tree_;
};

// While it lives no block moves, but by who made it.
class ShardedHeap::AllLocks {
 public:
  explicit AllLocks(ShardedHeap& heap) : tree_(heap.tree_->mutex, std::defer_lock) {
    for (int s = 0; s < kShards; ++s) {
      shards_[static_cast<size_t>(s)] =
          std::unique_lock(heap.shards_[static_cast<size_t>(s)].mutex);
    }
    tree_.lock();
  }

 private:
  std::array<std::unique_lock<std::mutex>, kShards> shards_;
  std::unique_lock<std::mutex> tree_;
};

void ShardedHeap::Depot::Put(FreeBlock* chain) {
  const std::lock_guard lock(mutex);
  chain->next_chain = std::exchange(chains, chain);
}

ShardedHeap::FreeBlock* ShardedHeap::Depot::Take() {
  const std::lock_guard lock(mutex);
  return chains == nullptr ? nullptr : std::exchange(chains, chains->next_chain);
}

ShardedHeap::ShardedHeap(std::byte* memory, int64_t bytes) {
  Check(reinterpret_cast<uintptr_t>(memory) % kLine == 0, "a heap begins at a line");
  Check(bytes >= kLeastBytes, "a heap has room for its tree");
  static_assert(BytesOf(kSizes - 1) == kMostKeptBytes);
  tree_ = std::make_unique<Tree>(memory, bytes);
  most_ = tree_->free_bytes();
}

ShardedHeap::~ShardedHeap() = default;

std::byte* ShardedHeap::Allocate(int64_t bytes, int shard) {
  if (bytes > kMostKeptBytes) return AllocateInTree(bytes, shard);
  const int size = SizeOf(bytes);
  FreeBlock* const block = TakeKept(shards_[static_cast<size_t>(shard)], size);
  if (block != nullptr) return reinterpret_cast<std::byte*>(block);
  return AllocateInTree(BytesOf(size), shard);
}

void ShardedHeap::Free(std::byte* block, int64_t bytes, int shard) {
  if (bytes > kMostKeptBytes) {
    const std::lock_guard lock(tree_->mutex);
    return tree_->Free(block);
  }
  Keep(shards_[static_cast<size_t>(shard)], SizeOf(bytes), new (block) FreeBlock);
}

ShardedHeap::FreeBlock* ShardedHeap::TakeKept(Shard& shard, int size) {
  const std::lock_guard lock(shard.mutex);
  Kept& kept = shard.kept[static_cast<size_t>(size)];
  if (kept.count == 0) {
    kept.blocks = kept.chain != nullptr ? std::exchange(kept.chain, nullptr)
                                        : depots_[static_cast<size_t>(size)].Take();
    if (kept.blocks == nullptr) return nullptr;
    kept.count = ChainOf(size);
  }
  --kept.count;
  return std::exchange(kept.blocks, kept.blocks->next);
}

void ShardedHeap::Keep(Shard& shard, int size, FreeBlock* block) {
  const std::lock_guard lock(shard.mutex);
  Kept& kept = shard.kept[static_cast<size_t>(size)];
  if (kept.count == ChainOf(size)) {
    if (kept.chain != nullptr) depots_[static_cast<size_t>(size)].Put(kept.chain);
    kept.chain = std::exchange(kept.blocks, nullptr);
    kept.count = 0;
  }
  block->next = std::exchange(kept.blocks, block);
  ++kept.count;
}

std::byte* ShardedHeap::AllocateInTree(int64_t bytes, int shard) {
  if (bytes > most_) return nullptr;
  std::byte* block = nullptr;
  const auto enough = [&] {
    block = tree_->Allocate(bytes);
    return block != nullptr;
  };
  {
    const std::lock_guard lock(tree_->mutex);
    if (enough()) return block;
  }
  // Others go on meanwhile, and may take what was given back.
  const auto step = [this](Shard& of) { return StepLocks(of, *tree_); };
  if (GiveBack(shard, step, enough)) return block;
  const AllLocks locks(*this);
  if (!enough()) GiveBack(shard, NoLocks, enough);
  return block;
}

int64_t ShardedHeap::FreeBytes() {
  const AllLocks locks(*this);
  GiveBack(0, NoLocks, [] { return false; });
  return tree_->free_bytes();
}

// The largest first: that is the most room of the fewest blocks. What all may take goes before what some CPU has at hand.
template <typename Lock, typename Enough>
bool ShardedHeap::GiveBack(int shard, Lock lock, Enough enough) {
  for (int size = kSizes - 1; size >= 0; --size) {
    // No more of them than there can be: others may bring new ones all the time.
    for (int64_t left = most_ / (BytesOf(size) * ChainOf(size)); left > 0; --left) {
      [[maybe_unused]] const auto held = lock(shards_[static_cast<size_t>(shard)]);
      FreeBlock* const chain = depots_[static_cast<size_t>(size)].Take();
      if (chain == nullptr) break;
      GiveBackList(chain);
      if (enough()) return true;
    }
  }
  for (Shard& of : shards_) {
    [[maybe_unused]] const auto held = lock(of);
    for (int size = kSizes - 1; size >= 0; --size) {
      Kept& kept = of.kept[static_cast<size_t>(size)];
      if (kept.count == 0 && kept.chain == nullptr) continue;
      GiveBackList(std::exchange(kept.chain, nullptr));
      GiveBackList(std::exchange(kept.blocks, nullptr));
      kept.count = 0;
      if (enough()) return true;
    }
  }
  return false;
}

void ShardedHeap::GiveBackList(FreeBlock* list) {
  while (list != nullptr) tree_->Free(std::exchange(list, list->next));
}

}  // namespace cellbatch::cuda
