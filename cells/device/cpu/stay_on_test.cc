#include "cells/device/cpu/stay_on.h"

#include <sched.h>

#include <new>
#include <thread>
#include <vector>

#include "cells/device/cpu/process_limits.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(StayOnTest, WorkStaysThereAndItsCallerWhereItWas) {
  const std::vector<int> mine = AllowedCpus();
  const std::vector<int> last = {mine.back()};
  std::vector<int> works, child;
  const std::thread::id caller = std::this_thread::get_id();
  RunOn(last, [&] {
    works = AllowedCpus();
    EXPECT_NE(std::this_thread::get_id(), caller);
    std::thread([&] { child = AllowedCpus(); }).join();
  });
  EXPECT_EQ(works, last);
  EXPECT_EQ(child, last) << "what it starts stays there, too";
  EXPECT_EQ(AllowedCpus(), mine);
}

TEST(StayOnTest, WithoutCpusTheCallerDoesItItself) {
  const std::thread::id caller = std::this_thread::get_id();
  bool ran = false;
  RunOn({}, [&] { ran = std::this_thread::get_id() == caller; });
  EXPECT_TRUE(ran);
}

// A load for which there is no memory is no end of the process.
TEST(StayOnTest, WhatWorkThrowsIsTheCallersToCatch) {
  for (const std::vector<int>& cpus : {std::vector<int>(), AllowedCpus()}) {
    EXPECT_THROW(RunOn(cpus, [] { throw std::bad_alloc(); }), std::bad_alloc) << cpus.size();
  }
}

TEST(StayOnTest, WhereItIsNotPermittedWorkIsDoneAnyway) {
  for (const int cpu : {-1, CPU_SETSIZE - 1, 1 << 20}) {
    bool ran = false;
    RunOn(std::vector<int>{cpu}, [&] { ran = true; });
    EXPECT_TRUE(ran) << cpu;
    std::thread([cpu] { EXPECT_FALSE(StayOn(std::vector<int>{cpu})) << cpu; }).join();
  }
  std::thread([] { EXPECT_FALSE(StayOn({})); }).join();
}

}  // namespace
}  // namespace cellbatch
