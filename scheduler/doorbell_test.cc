#include "scheduler/doorbell.h"

#include <atomic>
#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// Two threads hand a number back and forth, each sleeping whenever it finds nothing: one lost wake
// hangs the test.
TEST(DoorbellTest, NoWakeIsLostBetweenTwoThatSleepWheneverTheyCan) {
  // Not on the stack: where the address sanitizer watches it, its lines are not aligned.
  const auto bells = std::make_unique<Doorbell[]>(2);
  std::atomic<int> number = 0;
  constexpr int kRounds = 20000;
  const auto play = [&](int me) {
    for (;;) {
      const int n = number.load(std::memory_order_acquire);
      if (n >= kRounds) break;
      if (n % 2 == me) {
        number.store(n + 1, std::memory_order_release);
        bells[1 - me].Ring();
        continue;
      }
      bells[me].Prepare(Doorbell::Sleep::kForAnything);
      if (number.load(std::memory_order_acquire) != n) {
        bells[me].Cancel();
        continue;
      }
      bells[me].Wait(-1);
    }
    bells[1 - me].Ring();
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(number.load(), kRounds);
}

TEST(DoorbellTest, WhatCanWaitDoesNotWakeASleeperForUrgentThings) {
  const auto owned = std::make_unique<Doorbell>();
  Doorbell& bell = *owned;
  bell.Prepare(Doorbell::Sleep::kForUrgent);
  bell.Ring(/*urgent=*/false);
  bell.Wait(1);  // still asleep: returns by its time limit
  bell.Prepare(Doorbell::Sleep::kForUrgent);
  bell.Ring(/*urgent=*/true);
  bell.Wait(-1);  // rung before: returns at once
}

TEST(DoorbellTest, WhatASleeperIsWokenForCanBeChangedWhileItSleeps) {
  const auto owned = std::make_unique<Doorbell>();
  Doorbell& bell = *owned;
  EXPECT_FALSE(bell.Change(Doorbell::Sleep::kForAnything));  // nobody sleeps
  bell.Prepare(Doorbell::Sleep::kForUrgent);
  EXPECT_FALSE(bell.Change(Doorbell::Sleep::kForUrgent));
  EXPECT_TRUE(bell.Change(Doorbell::Sleep::kForAnything));  // may have missed something
  EXPECT_FALSE(bell.Change(Doorbell::Sleep::kForUrgent));
  bell.Ring(/*urgent=*/false);
  bell.Wait(1);  // still asleep
  bell.Prepare(Doorbell::Sleep::kForUrgent);
  EXPECT_TRUE(bell.Change(Doorbell::Sleep::kForAnything));
  bell.Ring(/*urgent=*/false);
  bell.Wait(-1);  // rung
}

// One who sleeps for urgent things only, as often as it can, and is told otherwise by whoever has something else for it.
TEST(DoorbellTest, NoWakeIsLostWhileTheSleepersMindIsChanged) {
  const auto owned = std::make_unique<Doorbell>();
  Doorbell& bell = *owned;
  constexpr int kRounds = 20000;
  std::atomic<int> given = 0, taken = 0;
  std::thread sleeper([&] {
    for (int have = 0; have < kRounds;) {
      bell.Prepare(Doorbell::Sleep::kForUrgent);
      if (given.load(std::memory_order_acquire) == have) {
        bell.Wait(-1);
      } else {
        bell.Cancel();
      }
      have = given.load(std::memory_order_acquire);
      taken.store(have, std::memory_order_release);
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    given.store(i, std::memory_order_release);
    while (taken.load(std::memory_order_acquire) != i) {
      bell.Change(i % 2 == 0 ? Doorbell::Sleep::kForUrgent : Doorbell::Sleep::kForAnything);
      bell.Ring(/*urgent=*/i % 2 == 0);
    }
  }
  sleeper.join();
}

}  // namespace
}  // namespace cellbatch
