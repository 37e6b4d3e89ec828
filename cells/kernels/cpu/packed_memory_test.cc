#include "cells/kernels/cpu/packed_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <new>

namespace cellbatch::kernels {
namespace {

TEST(PackedMemoryTest, AllIsZeroAndMayBeReadBeyondItsEnd) {
  for (const int64_t floats : {1, 1000, 3'000'000}) {
    PackedMemory memory(floats);
    EXPECT_EQ(memory.size(), floats);
    const float* const end =
        memory.data() + floats + PackedMemory::kReadablePad / int64_t{sizeof(float)};
    EXPECT_TRUE(std::all_of(memory.data(), memory.data() + floats, [](float x) { return x == 0; }));
    EXPECT_EQ(*(end - 1), 0);
  }
}

// As a load is told so, which fails; the model that serves goes on.
TEST(PackedMemoryTest, WhatNoMachineHasIsNotTaken) {
  EXPECT_THROW(PackedMemory(int64_t{1} << 50), std::bad_alloc);
}

}  // namespace
}  // namespace cellbatch::kernels
