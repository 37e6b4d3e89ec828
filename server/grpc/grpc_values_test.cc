#include "server/grpc/grpc_values.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr int64_t kUptimeNs = kHourNs;  // of a machine that is up for an hour

int64_t AfterHours(int64_t hours) {
  return SteadyDeadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_hours(hours, GPR_TIMESPAN)),
      kUptimeNs);
}

TEST(GrpcValuesTest, WhatIsLeftOfADeadlineIsTheSameOnOurClock) {
  const int64_t steady = AfterHours(2);
  EXPECT_LE(steady, kUptimeNs + 2 * kHourNs);
  EXPECT_GT(steady, kUptimeNs + kHourNs);
}

TEST(GrpcValuesTest, NoDeadlineStaysNone) {
  EXPECT_EQ(SteadyDeadline(gpr_inf_future(GPR_CLOCK_MONOTONIC), kUptimeNs), kNoDeadline);
}

// 2562047H is what Go and Java make of their longest time, 99999999H the most that a grpc-timeout can say.
TEST(GrpcValuesTest, ADeadlineBeyondOurClockIsNoneAndNotLongPast) {
  EXPECT_EQ(AfterHours(2562047), kNoDeadline);
  EXPECT_EQ(AfterHours(99999999), kNoDeadline);
}

}  // namespace
}  // namespace cellbatch
