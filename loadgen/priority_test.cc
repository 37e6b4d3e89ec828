#include "loadgen/priority.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace cellbatch {
namespace {

TEST(PriorityTest, WhatIsReportedIsInForceAndOnlyOnThatThread) {
  std::thread([] {
    const ThreadPriority reported = RaiseThisThread();
    int policy = -1;
    sched_param parameter{};
    ASSERT_EQ(pthread_getschedparam(pthread_self(), &policy, &parameter), 0);
    const int nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
    EXPECT_EQ(policy == SCHED_FIFO, reported == ThreadPriority::kRealtime);
    if (reported == ThreadPriority::kRaised) {
      EXPECT_EQ(nice, -20);
    }
    RecordProperty("priority", PriorityText(reported));
  }).join();
  int policy = -1;
  sched_param parameter{};
  ASSERT_EQ(pthread_getschedparam(pthread_self(), &policy, &parameter), 0);
  EXPECT_EQ(policy, SCHED_OTHER);
}

TEST(PriorityTest, EveryPriorityHasItsText) {
  EXPECT_EQ(std::string(PriorityText(ThreadPriority::kRealtime)), "realtime (SCHED_FIFO)");
  EXPECT_EQ(std::string(PriorityText(ThreadPriority::kRaised)), "raised (nice -20)");
  EXPECT_EQ(std::string(PriorityText(ThreadPriority::kShortSlices)),
            "normal, with short slices (no permission for more)");
  EXPECT_EQ(std::string(PriorityText(ThreadPriority::kNormal)),
            "normal (no permission to raise it)");
}

}  // namespace
}  // namespace cellbatch
