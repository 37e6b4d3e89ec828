#include "server/grpc/spare_thread.h"

#include <future>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(SpareThreadTest, ItRunsOneThingAtATimeAndThenTheNext) {
  std::promise<void> goes_on;
  std::promise<std::thread::id> ran, ran_next;
  SpareThread spare;
  ASSERT_TRUE(spare.Run([&] {
    ran.set_value(std::this_thread::get_id());
    goes_on.get_future().wait();
  }));
  const std::thread::id where = ran.get_future().get();
  EXPECT_NE(where, std::this_thread::get_id());
  EXPECT_FALSE(spare.Run([] {})) << "it is busy";
  goes_on.set_value();
  while (!spare.Run([&] { ran_next.set_value(std::this_thread::get_id()); })) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ran_next.get_future().get(), where);
}

TEST(SpareThreadTest, WhatItWasGivenIsDoneBeforeItEnds) {
  bool done = false;
  {
    SpareThread spare;
    ASSERT_TRUE(spare.Run([&] { done = true; }));
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace cellbatch
