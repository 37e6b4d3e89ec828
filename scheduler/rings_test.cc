#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler/mpsc_ring.h"
#include "scheduler/outbox.h"
#include "scheduler/request_slots.h"

namespace cellbatch {
namespace {

TEST(MpscRingTest, EachProducersEntriesArriveOnceAndInOrder) {
  constexpr int kProducers = 3;
  constexpr uint64_t kEach = 20000;
  constexpr uint64_t kTokens = 64;
  // Not on the stack: where the address sanitizer watches it, its lines are not aligned.
  const auto owned = std::make_unique<MpscRing>(kTokens);
  MpscRing& ring = *owned;
  std::atomic<int64_t> tokens = kTokens;
  std::vector<std::thread> producers;
  for (uint64_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        while (tokens.fetch_sub(1, std::memory_order_acq_rel) <= 0) {
          tokens.fetch_add(1, std::memory_order_acq_rel);
          std::this_thread::yield();
        }
        ring.Push(p << 32 | i);
      }
    });
  }
  std::vector<uint64_t> last(kProducers, 0);
  for (uint64_t n = 0; n < kProducers * kEach;) {
    const uint64_t value = ring.Pop();
    if (value == 0) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(value & 0xffffffff, ++last[value >> 32]);
    tokens.fetch_add(1, std::memory_order_acq_rel);
    ++n;
  }
  for (std::thread& t : producers) t.join();
  EXPECT_TRUE(ring.empty());
}

TEST(MpscRingDeathTest, MoreEntriesThanTokensIsOurBug) {
  const auto owned = std::make_unique<MpscRing>(2);
  MpscRing& ring = *owned;
  ring.Push(1);
  ring.Push(2);
  EXPECT_DEATH(ring.Push(3), "tokens");
}

// Or the ring of messages, which has room for one of each slot, would be full one day.
TEST(RequestSlotsTest, ASlotsNewsIsInTheRingOnceWhoeverHasTheSlotMeanwhile) {
  RequestSlots slots(1);
  const RequestId first = *slots.Acquire();
  EXPECT_TRUE(slots.SetNews(first, RequestSlots::kCancelled));
  EXPECT_FALSE(slots.SetNews(first, RequestSlots::kExpired)) << "it lies there";
  slots.Release(first.slot);
  const RequestId second = *slots.Acquire();
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_FALSE(slots.SetNews(first, RequestSlots::kExpired)) << "it is a stranger now";
  EXPECT_FALSE(slots.SetNews(second, RequestSlots::kExpired)) << "what lies there tells of it";
  EXPECT_EQ(slots.TakeNews(second.slot) & RequestSlots::kBits,
            RequestSlots::kExpired | RequestSlots::kQueued);
  EXPECT_TRUE(slots.SetNews(second, RequestSlots::kCancelled));
}

TEST(OutboxTest, NothingIsSeenBeforePublishAndEverythingAfter) {
  Outbox<int> outbox(4);
  outbox.Put(1);
  outbox.Put(2);
  EXPECT_EQ(outbox.ready(), 0u);
  EXPECT_TRUE(outbox.Publish());
  EXPECT_FALSE(outbox.Publish());
  ASSERT_EQ(outbox.ready(), 2u);
  EXPECT_EQ(outbox.entry(0), 1);
  EXPECT_EQ(outbox.entry(1), 2);
  outbox.Drop(2);
  EXPECT_EQ(outbox.ready(), 0u);
}

}  // namespace
}  // namespace cellbatch
