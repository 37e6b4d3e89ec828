// What a crowd took of the server's memory goes back to the system when it has gone: freed is not enough where a container is
// killed for what its processes keep. And while crowds come one after the other it takes no more and more (serving.md 4.4, T9).
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/fault/attacks/many_calls.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

class MemoryBackTest : public OwnServerTest {};

TEST_F(MemoryBackTest, WhatACrowdTookIsGivenBackWhenItHasGone) {
  constexpr int kCalls = 8000, kSteps = 4000;
  constexpr int64_t kCrowd = int64_t{kCalls} * kSteps * 4, kMayStay = 48 << 20;
  ASSERT_NO_FATAL_FAILURE(
      Serve({"--batch-limit=4", "--max-queued-requests=20000", "--max-queued-cells=100000000"}));
  ExpectGood(*caller_);
  const int64_t before = server_->ResidentBytes();
  {
    GrpcCaller crowded(server_->grpc());
    ManyCalls crowd(crowded, kCalls, Words(std::vector<int32_t>(kSteps, 1), "slow"));
    // It is there: no share of the admission takes all of it.
    while (server_->ResidentBytes() < before + kCrowd / 2) std::this_thread::yield();
    crowd.Cancel();
    crowd.Ended(grpc::StatusCode::CANCELLED);
  }
  WaitUntilEmpty(*server_);
  while (server_->ResidentBytes() > before + kMayStay) std::this_thread::yield();
  ExpectGood(*caller_);
  End();
}

// How much of its capacity is left to it says `tests/bench/run overload`; here, that none of it goes into what is refused.
TEST_F(MemoryBackTest, T9UnderOverloadAllThatIsComputedIsAnsweredAndMemoryStaysAsItIs) {
  constexpr int kWaves = 6, kCalls = 1000, kSteps = 200;
  constexpr int64_t kMayGrow = 24 << 20;
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-queued-requests=50"}));
  int answered = 0, refused = 0;
  int64_t after_the_second = 0;
  for (int wave = 0; wave < kWaves; ++wave) {
    ManyCalls crowd(*caller_, kCalls, Words(std::vector<int32_t>(kSteps, 1)));
    answered += crowd.Ended(grpc::StatusCode::OK);
    refused += crowd.Ended(grpc::StatusCode::RESOURCE_EXHAUSTED);
    if (wave == 1) after_the_second = server_->PeakResidentBytes();
  }
  EXPECT_EQ(answered + refused, kWaves * kCalls);
  EXPECT_GT(answered, 0);
  EXPECT_GT(refused, 0) << "it was no overload";
  EXPECT_LT(server_->PeakResidentBytes() - after_the_second, kMayGrow);
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Steps("words"), static_cast<double>(answered) * kSteps);
  ExpectGood(*caller_);
  End();
}

}  // namespace
}  // namespace cellbatch
