// Which block holds a range, and which holds none of it.
#include "tests/cuda_emulator/memory_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cellbatch::emulator {
namespace {

class MemoryRegistryTest : public ::testing::Test {
 protected:
  MemoryRegistryTest() {
    registry_.Add({.start = 0x1000, .bytes = 64, .kind = MemoryKind::kDevice, .gpu = 0});
    registry_.Add({.start = 0x2000, .bytes = 100, .kind = MemoryKind::kDevice, .gpu = 1});
    registry_.Add({.start = 0x3000, .bytes = 8, .kind = MemoryKind::kHost, .gpu = 1});
  }

  MemoryRegistry registry_;
};

TEST_F(MemoryRegistryTest, ABlockHoldsWhatLiesInItWhole) {
  EXPECT_EQ(registry_.Holding(0x1000, 64)->number, 1);
  EXPECT_EQ(registry_.Holding(0x2063, 1)->gpu, 1);
  EXPECT_EQ(registry_.Holding(0x3004, 4)->kind, MemoryKind::kHost);
  EXPECT_FALSE(registry_.Holding(0x1000, 65).has_value());
  EXPECT_FALSE(registry_.Holding(0x0fff, 2).has_value());
  EXPECT_FALSE(registry_.Holding(0x1040, 1).has_value());
  EXPECT_FALSE(registry_.Holding(0x2001, SIZE_MAX).has_value());
}

TEST_F(MemoryRegistryTest, WhatIsRemovedIsGoneAndItsAddressComesBackUnderAnotherNumber) {
  const uint64_t before = registry_.version();
  EXPECT_EQ(registry_.Remove(0x2000)->bytes, 100u);
  EXPECT_NE(registry_.version(), before);
  EXPECT_FALSE(registry_.Remove(0x2000).has_value());
  EXPECT_FALSE(registry_.Remove(0x1001).has_value());
  EXPECT_FALSE(registry_.Holding(0x2000, 1).has_value());
  EXPECT_EQ(registry_.Add({.start = 0x2000, .bytes = 4}), 4);
  EXPECT_EQ(registry_.StartingAt(0x2000)->number, 4);
  EXPECT_EQ(registry_.Blocks().size(), 3u);
}

TEST_F(MemoryRegistryTest, LiveBytesAreOfAGpuOrOfTheHost) {
  EXPECT_EQ(registry_.LiveBytes(0), 64);
  EXPECT_EQ(registry_.LiveBytes(1), 100);
  EXPECT_EQ(registry_.LiveBytes(-1), 8);
}

TEST_F(MemoryRegistryTest, APlaceIsToldByTheBlockBeforeIt) {
  EXPECT_EQ(registry_.Describe(0x10, 4), "4 bytes at 0x10, below all that is allocated");
  EXPECT_EQ(registry_.Describe(0x1010, 64),
            "64 bytes at 0x1010, 16 behind the start of 64 bytes of GPU 0");
  EXPECT_EQ(registry_.Describe(0x3009, 1),
            "1 bytes at 0x3009, 1 behind the end of 8 bytes of host memory");
}

}  // namespace
}  // namespace cellbatch::emulator
