#include "cells/large_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

// Sizes around those at which something changes.
const size_t kSizes[] = {1, 64, 65, kHugePage - 1, kHugePage, kHugePage + 1, 3 * kHugePage};

// Bytes of addresses that this process has.
size_t MappedBytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<size_t>(getpagesize());
}

TEST(LargeMemoryTest, EveryByteIsZeroAndOnesOwnAndItBeginsWhereItShould) {
  for (const Backing backing : {Backing::kCounted, Backing::kAddresses}) {
    std::vector<unsigned char*> all;
    for (const size_t bytes : kSizes) {
      auto* const memory = static_cast<unsigned char*>(NewLargeMemory(bytes, backing));
      ASSERT_NE(memory, nullptr) << bytes;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) %
                    (bytes < kHugePage ? kLargeMemoryAlignment : kHugePage),
                0u);
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], 0) << i << " of " << bytes;
      all.push_back(memory);
      std::memset(memory, static_cast<int>(all.size()), bytes);
    }
    for (size_t i = 0; i < all.size(); ++i) {
      for (size_t at = 0; at < kSizes[i]; ++at) ASSERT_EQ(all[i][at], i + 1) << kSizes[i];
      DeleteLargeMemory(all[i], kSizes[i]);
    }
  }
}

// Not to malloc, which would keep it; and all of it, the place before and behind it included.
TEST(LargeMemoryTest, WhatIsDeletedGoesBackToTheSystem) {
  constexpr size_t kBytes = size_t{1} << 30;
  DeleteLargeMemory(NewLargeMemory(kBytes, Backing::kAddresses), kBytes);
  const size_t before = MappedBytes();
  for (int i = 0; i < 100; ++i) {
    void* const memory = NewLargeMemory(kBytes + 1, Backing::kAddresses);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(MappedBytes() - before, kBytes + kHugePage);
    DeleteLargeMemory(memory, kBytes + 1);
  }
  EXPECT_EQ(MappedBytes(), before);
}

TEST(LargeMemoryTest, WhereThereIsNoRoomThereIsNoMemory) {
  EXPECT_EQ(NewLargeMemory(size_t{1} << 60, Backing::kAddresses), nullptr);
  DeleteLargeMemory(nullptr, size_t{1} << 60);
}

}  // namespace
}  // namespace cellbatch
