#include "scheduler/block_pool.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "cells/large_memory.h"

namespace cellbatch {
namespace {

constexpr size_t kChunk = kHugePage;
constexpr int kFirstBits = 10;  // the smallest class: 1 K
constexpr int kClasses = 2 * (std::bit_width(kLargestPooledBlock) - 1 - kFirstBits) + 1;

// 2^k and 1.5 * 2^k, by turns.
constexpr size_t MostOf(int size_class) {
  const size_t power = size_t{1} << (kFirstBits + size_class / 2);
  return size_class % 2 == 0 ? power : power + power / 2;
}
static_assert(MostOf(kClasses - 1) == kLargestPooledBlock);

// An odd number of alignments apart, or the headers of all blocks would share a few sets of the caches.
constexpr size_t StrideOf(int size_class) { return MostOf(size_class) + kBlockAlignment; }

int ClassOf(size_t bytes) {
  const int power =
      std::max(static_cast<int>(std::bit_width(bytes - 1)), kFirstBits);  // bytes <= 2^power
  const int above = 2 * (power - kFirstBits);
  return above > 0 && bytes <= MostOf(above - 1) ? above - 1 : above;
}

class BlockPool {
 public:
  void* New(int size_class) {
    Class& c = classes_[static_cast<size_t>(size_class)];
    const std::lock_guard lock(c.mutex);
    if (c.free != nullptr) {
      Free* const block = c.free;
      c.free = block->next;
      return block;
    }
    const size_t stride = StrideOf(size_class);
    if (c.left < stride) {
      c.at = Map();
      c.left = kChunk;
    }
    c.left -= stride;
    return std::exchange(c.at, c.at + stride);
  }
  void Delete(void* memory, int size_class) {
    Class& c = classes_[static_cast<size_t>(size_class)];
    Free* const block = new (memory) Free;
    const std::lock_guard lock(c.mutex);
    block->next = c.free;
    c.free = block;
  }

 private:
  struct Free {
    Free* next;
  };
  struct Class {
    std::mutex mutex;
    Free* free = nullptr;
    std::byte* at = nullptr;  // of a chunk, what was never used
    size_t left = 0;
  };

  static std::byte* Map() {
    void* const memory = NewLargeMemory(kChunk, Backing::kAddresses);
    if (memory == nullptr) throw std::bad_alloc();
    return static_cast<std::byte*>(memory);
  }

  std::array<Class, kClasses> classes_;
};

BlockPool& Pool() {
  static BlockPool* const pool = new BlockPool;  // outlives every request
  return *pool;
}

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPooled = false;
#else
constexpr bool kPooled = true;
#endif

}  // namespace

void* NewBlock(size_t bytes) {
  if (kPooled && bytes <= kLargestPooledBlock) return Pool().New(ClassOf(bytes));
  return ::operator new(bytes, std::align_val_t(kBlockAlignment));
}

void DeleteBlock(void* block, size_t bytes) noexcept {
  if (kPooled && bytes <= kLargestPooledBlock) {
    Pool().Delete(block, ClassOf(bytes));
  } else {
    ::operator delete(block, std::align_val_t(kBlockAlignment));
  }
}

size_t PooledBytes(size_t bytes) {
  return kPooled && bytes <= kLargestPooledBlock ? MostOf(ClassOf(bytes)) : bytes;
}

}  // namespace cellbatch
