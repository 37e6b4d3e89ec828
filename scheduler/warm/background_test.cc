#include "scheduler/warm/background.h"

#include <sched.h>
#include <sys/resource.h>

#include <new>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(BackgroundTest, TheWorkYieldsToOthersAndItsCallerDoesNot) {
  const int before = getpriority(PRIO_PROCESS, 0);
  const std::thread::id caller = std::this_thread::get_id();
  int nice = 0, policy = -1;
  std::thread::id worker;
  RunInBackground([&] {
    nice = getpriority(PRIO_PROCESS, 0);
    policy = sched_getscheduler(0);
    worker = std::this_thread::get_id();
  });
  EXPECT_NE(worker, caller);
  EXPECT_EQ(nice, before > 10 ? before : 10);
  EXPECT_EQ(policy, SCHED_BATCH);
  EXPECT_EQ(getpriority(PRIO_PROCESS, 0), before);
  EXPECT_NE(sched_getscheduler(0), SCHED_BATCH);
}

TEST(BackgroundTest, WhatTheWorkThrowsIsItsCallersToCatch) {
  EXPECT_THROW(RunInBackground([] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace cellbatch
