#include "scheduler/ready/event_wheel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace cellbatch {
namespace {

constexpr int kSlots = 64;

std::vector<int32_t> At(const EventWheel& wheel, uint32_t step) {
  std::vector<int32_t> slots(kSlots);
  slots.resize(static_cast<size_t>(wheel.At(step, slots.data())));
  std::sort(slots.begin(), slots.end());
  return slots;
}

TEST(EventWheelTest, AnEventMoreThanATurnAwayIsPassedOverUntilItsStep) {
  EventWheel wheel(kSlots);
  wheel.Add(3, 1000);
  for (uint32_t step = 0; step < 1000; ++step) EXPECT_TRUE(At(wheel, step).empty()) << step;
  EXPECT_EQ(At(wheel, 1000), std::vector<int32_t>{3});
}

// Slots come, go, move to where one left (as the chains' dense arrays do) and wait again, across the wrap of the step.
TEST(EventWheelTest, IsAMapFromSlotToStepWhateverIsDoneToIt) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    EventWheel wheel(kSlots);
    std::map<int32_t, uint32_t> steps;  // by slot, dense from 0
    uint32_t now = ~0u - 300;
    const auto leave = [&](int32_t slot) {
      const int32_t last = static_cast<int32_t>(steps.size()) - 1;
      wheel.Remove(slot);
      if (slot != last) {
        wheel.Move(last, slot);
        steps[slot] = steps[last];
      }
      steps.erase(last);
    };
    for (int i = 0; i < 2000; ++i, ++now) {
      while (steps.size() < kSlots && random() % 3 != 0) {
        const int32_t slot = static_cast<int32_t>(steps.size());
        wheel.Add(slot, steps[slot] = now + random() % 700);
      }
      if (!steps.empty() && random() % 4 == 0) leave(static_cast<int32_t>(random() % steps.size()));
      std::vector<int32_t> expected;
      for (const auto& [slot, step] : steps) {
        if (step == now) expected.push_back(slot);
      }
      ASSERT_EQ(At(wheel, now), expected) << "seed " << seed << " step " << now;
      for (const int32_t slot : expected) {  // looked at: they wait again
        wheel.Remove(slot);
        wheel.Add(slot, steps[slot] = now + 1 + random() % 300);
      }
    }
  }
}

}  // namespace
}  // namespace cellbatch
