#include "scheduler/device_clock.h"

#include <random>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

BatchedTask Task(int64_t enqueued, int64_t start, int64_t end) {
  BatchedTask task;
  task.enqueued_ns = enqueued;
  task.start_ns = start;
  task.end_ns = end;
  return task;
}

TEST(DeviceClockTest, TasksSeenTogetherKeepTheirOwnTimes) {
  DeviceClock clock;
  BatchedTask a = Task(1000, 77000, 77300), b = Task(1010, 77300, 77900),
              c = Task(1020, 78000, 78050);
  for (BatchedTask* task : {&a, &b, &c}) clock.MoveToHost(*task, 2100);
  EXPECT_EQ(a.start_ns, 1000);
  EXPECT_EQ(a.end_ns, 1300);
  EXPECT_EQ(b.start_ns, 1300);
  EXPECT_EQ(b.end_ns, 1900);
  EXPECT_EQ(c.start_ns, 2000);
  EXPECT_EQ(c.end_ns, 2050);
}

TEST(DeviceClockTest, ALateFirstLaunchIsMadeUpForByLaterOnes) {
  DeviceClock clock;
  BatchedTask late = Task(1000, 50500, 50600), prompt = Task(5000, 54005, 54100);
  clock.MoveToHost(late, 1700);
  EXPECT_EQ(late.start_ns, 1000) << "as far as anybody can tell";
  clock.MoveToHost(prompt, 5200);
  EXPECT_EQ(prompt.start_ns, 5000);
}

// Clocks that drift by 1 in 10^4 for an hour: what is told stays within a launch and a poll of the truth.
TEST(DeviceClockTest, ClocksThatDriftApartAreFollowed) {
  constexpr uint32_t kSeed = 5;
  for (const double pace : {0.9999, 1.0001}) {
    DeviceClock clock;
    std::mt19937 random(kSeed);
    const auto device = [&](int64_t host) {
      return 123456789 + static_cast<int64_t>(pace * static_cast<double>(host));
    };
    int64_t at = 1000;
    for (int i = 0; i < 36000; ++i) {
      const int64_t start = at + random() % 8000, end = start + 100'000,
                    seen = end + random() % 8000;
      BatchedTask task = Task(at, device(start), device(end));
      clock.MoveToHost(task, seen);
      ASSERT_LE(std::abs(task.start_ns - start), 16'000 + 10)
          << "task " << i << ", pace " << pace << ", seed " << kSeed;
      ASSERT_NEAR(static_cast<double>(task.end_ns - task.start_ns), 100'000, 11);
      at = seen + 100'000'000;
    }
  }
}

}  // namespace
}  // namespace cellbatch
