// What a crowd took of the server's memory goes back to the system when it has gone: freed is not enough where a container is
// killed for what its processes keep.
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

}  // namespace
}  // namespace cellbatch
