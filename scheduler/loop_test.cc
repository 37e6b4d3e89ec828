#include "scheduler/loop.h"

#include <time.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

using Idle = Loop::Body::Idle;

double ThreadSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

TEST(LoopTest, WhoNapsWhileSomethingIsUnderWayLeavesTheCoreToOthers) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::milliseconds(200);
  Doorbell bell;
  std::atomic<double> seconds = -1;  // that the loop's thread has computed by then
  Loop::Body body;
  body.step = [&] {
    if (seconds < 0 && Clock::now() >= until) seconds = ThreadSeconds();
    return false;
  };
  body.idle = [] { return Idle::kBusy; };
  Loop loop("busy", body, bell, {0, false, 1'000'000});
  while (seconds < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LT(seconds, 0.1);
}

TEST(LoopTest, WhatIsRungForIsDone) {
  Doorbell bell;
  std::atomic<int> given = 0, done = 0;
  Loop::Body body;
  body.step = [&] {
    if (done == given) return false;
    ++done;
    return true;
  };
  body.idle = [] { return Idle::kForAnything; };
  Loop loop("rung", body, bell, {});
  for (int i = 1; i <= 1000; ++i) {
    given = i;
    bell.Ring();
    while (done != i) std::this_thread::yield();
  }
}

}  // namespace
}  // namespace cellbatch
