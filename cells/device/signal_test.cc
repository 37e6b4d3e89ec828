#include "cells/device/signal.h"

#include <gtest/gtest.h>

#include <limits>

namespace cellbatch {
namespace {

constexpr uint64_t kLast = std::numeric_limits<uint64_t>::max();

TEST(SignalTest, ATaskIsDoneOnceTheSignalReachedIt) {
  EXPECT_FALSE(SignalPassed(0, 1));
  EXPECT_TRUE(SignalPassed(1, 1));
  EXPECT_TRUE(SignalPassed(7, 1));
}

TEST(SignalTest, PassingTheEndOfTheCounterChangesNothing) {
  EXPECT_TRUE(SignalPassed(0, kLast));
  EXPECT_TRUE(SignalPassed(5, kLast - 5));
  EXPECT_FALSE(SignalPassed(kLast, 0));
  EXPECT_FALSE(SignalPassed(kLast - 5, 5));
}

TEST(SignalTest, ANarrowCounterIsWidenedAcrossItsWraps) {
  uint64_t signal = 0;
  for (uint64_t done = 0; done < 10000; done += 1 + done % 100) {
    signal = WidenSignal(signal, done & 0xff, 8);
    EXPECT_EQ(signal, done);
  }
  EXPECT_EQ(WidenSignal(3, 3, 8), 3u);
  EXPECT_EQ(WidenSignal(kLast, 4, 64), 4u);
}

}  // namespace
}  // namespace cellbatch
