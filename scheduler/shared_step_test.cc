#include "scheduler/shared_step.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// What is published before a call is seen by a step that ends after it: by its own or by that of who was at it.
TEST(SharedStepTest, NoCallIsLostAndNoTwoStepsMeet) {
  constexpr int kThreads = 4, kEach = 20000;
  std::atomic<int> given[kThreads] = {};
  std::atomic<bool> in_step = false;
  int seen[kThreads] = {};  // no atomics: steps see each other's
  SharedStep shared([&] {
    EXPECT_FALSE(in_step.exchange(true));
    bool worked = false;
    for (int t = 0; t < kThreads; ++t) {
      const int now = given[t].load(std::memory_order_relaxed);
      worked |= now != seen[t];
      seen[t] = now;
    }
    in_step = false;
    return worked;
  });
  std::atomic<int> left_over = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 1; i <= kEach; ++i) {
        given[t].store(i, std::memory_order_relaxed);
        if (shared.Step(2).asked) ++left_over;
      }
      while (shared.Step(1).asked) {
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int last : seen) EXPECT_EQ(last, kEach);
}

TEST(SharedStepTest, GoesOnUntilNothingIsToBeDone) {
  int made = 0;
  SharedStep shared([&] { return ++made < 5; });
  const SharedStep::Result first = shared.Step(3);
  EXPECT_EQ(made, 3);
  EXPECT_TRUE(first.worked && first.asked);
  const SharedStep::Result rest = shared.Step(10);
  EXPECT_EQ(made, 5);
  EXPECT_TRUE(rest.worked && !rest.asked);
  const SharedStep::Result nothing = shared.Step(10);
  EXPECT_EQ(made, 6);
  EXPECT_FALSE(nothing.worked || nothing.asked);
}

TEST(SharedStepTest, WhoComesMeanwhileIsHeard) {
  SharedStep* self = nullptr;
  int made = 0;
  SharedStep shared([&] {
    if (++made == 1) {  // as another thread would: somebody is at it
      const SharedStep::Result inside = self->Step(1);
      EXPECT_FALSE(inside.worked || inside.asked);
    }
    return false;
  });
  self = &shared;
  const SharedStep::Result result = shared.Step(3);
  EXPECT_EQ(made, 2);
  EXPECT_FALSE(result.worked || result.asked);
}

}  // namespace
}  // namespace cellbatch
