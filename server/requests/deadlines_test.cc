#include "server/requests/deadlines.h"

#include <algorithm>
#include <deque>
#include <future>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

class StandingClock final : public Clock {
 public:
  int64_t NowNs() const override { return 0; }
};

TEST(DeadlineHeapTest, AgreesWithASortedSetUnderRandomAddsAndRemoves) {
  const unsigned seed = 4711;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (const size_t size : {4u, 15u, 500u}) {  // of few, each has its turn at the top soon
    DeadlineHeap heap;
    std::deque<DeadlineEntry> entries(size);
    std::multiset<int64_t> reference;
    for (int step = 0; step < 20000; ++step) {
      DeadlineEntry& entry = entries[random() % entries.size()];
      if (entry.place < 0) {
        entry.deadline_ns = static_cast<int64_t>(random() % 1000);
        heap.Add(entry);
        reference.insert(entry.deadline_ns);
      } else {
        heap.Remove(entry);
        reference.erase(reference.find(entry.deadline_ns));
      }
      ASSERT_EQ(heap.size(), reference.size());
      if (!reference.empty()) {
        ASSERT_EQ(heap.earliest()->deadline_ns, *reference.begin());
      }
    }
  }
}

TEST(DeadlineTimerTest, TellsOfExactlyThoseThatHavePassedEarliestFirst) {
  StandingClock clock;
  std::vector<uint32_t> told;
  DeadlineTimer timer(clock, [&](TimedId id) { told.push_back(std::get<RequestId>(id).slot); });
  DeadlineEntry a{.deadline_ns = 30, .whose = RequestId{1, 1}},
      b{.deadline_ns = 10, .whose = RequestId{2, 1}},
      c{.deadline_ns = 20, .whose = RequestId{3, 1}},
      d{.deadline_ns = 40, .whose = RequestId{4, 1}};
  for (DeadlineEntry* entry : {&a, &b, &c, &d}) timer.Add(*entry);
  timer.Remove(c);
  EXPECT_EQ(timer.ExpireUntil(35), 2);
  EXPECT_EQ(told, (std::vector<uint32_t>{2, 1}));
  timer.Remove(a);  // it is gone already: nothing happens
  timer.Remove(d);
  EXPECT_EQ(timer.ExpireUntil(1000), 0);
}

TEST(DeadlineTimerTest, ItsThreadWakesForADeadlineSoonerThanTheOneItSleepsFor) {
  SteadyClock clock;
  std::promise<uint32_t> told;
  DeadlineTimer timer(clock, [&](TimedId id) { told.set_value(std::get<RequestId>(id).slot); });
  DeadlineEntry late{.deadline_ns = clock.NowNs() + 3'600'000'000'000, .whose = RequestId{1, 1}};
  DeadlineEntry soon{.deadline_ns = clock.NowNs() + 1'000'000, .whose = RequestId{2, 1}};
  timer.Add(late);
  timer.Add(soon);
  EXPECT_EQ(told.get_future().get(), 2u);
  timer.Remove(late);
}

}  // namespace
}  // namespace cellbatch
