#include "scheduler/graph_batch/length_buckets.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// A request of one chain.
struct Waiter {
  RequestBlock block = {};
  NodeRecord record = {};
};

std::vector<std::unique_ptr<Waiter>> Waiters(const std::vector<int32_t>& lengths) {
  std::vector<std::unique_ptr<Waiter>> all;
  for (const int32_t length : lengths) {
    Waiter& w = *all.emplace_back(std::make_unique<Waiter>());
    w.block.slot = static_cast<uint32_t>(all.size() - 1);
    w.block.records = &w.record;
    w.block.num_records = 1;
    w.record.length = length;
  }
  return all;
}

TEST(LengthBucketsTest, BucketsTakeTurnsAndInEachTheOldestIsFirst) {
  const auto waiters = Waiters({10, 1, 31, 11, 20, 5000, 6000});
  LengthBuckets buckets(10, 8);
  EXPECT_EQ(buckets.Next(/*begins=*/true), nullptr);
  for (const auto& w : waiters) buckets.Push(w->block);
  std::vector<int32_t> lengths;
  while (buckets.size() > 0) {
    RequestBlock& next = *buckets.Next(/*begins=*/true);
    lengths.push_back(LengthBuckets::LengthOf(next));
    buckets.Remove(next);
    EXPECT_FALSE(buckets.Has(next));
  }
  EXPECT_EQ(lengths, (std::vector<int32_t>{10, 11, 31, 5000, 6000, 1, 20}));
}

TEST(LengthBucketsTest, ABatchThatHasBegunGoesOnWithItsBucketAlone) {
  const auto waiters = Waiters({3, 12, 4});
  LengthBuckets buckets(10, 8);
  for (const auto& w : waiters) buckets.Push(w->block);
  EXPECT_EQ(buckets.Next(true), &waiters[0]->block);
  EXPECT_EQ(buckets.Next(false), &waiters[0]->block) << "to look at it is not to take it";
  buckets.Remove(waiters[0]->block);
  EXPECT_EQ(buckets.Next(false), &waiters[2]->block);
  buckets.Remove(waiters[2]->block);
  EXPECT_EQ(buckets.Next(false), nullptr);
  EXPECT_EQ(buckets.Next(true), &waiters[1]->block);
}

// Against deques that are looked through.
TEST(LengthBucketsTest, WhoeverComesAndGoesTheOrderIsTheOneOfDeques) {
  std::mt19937 random(17);
  constexpr int kWaiters = 60;
  constexpr int32_t kWidth = 7;
  std::vector<int32_t> drawn(kWaiters);
  for (int32_t& length : drawn) length = 1 + static_cast<int32_t>(random() % 90);
  const auto waiters = Waiters(drawn);
  LengthBuckets buckets(kWidth, kWaiters);
  std::map<int32_t, std::deque<RequestBlock*>> reference;
  int32_t turn = -1;
  size_t waiting = 0;
  for (int step = 0; step < 20'000; ++step) {
    Waiter& w = *waiters[random() % kWaiters];
    std::deque<RequestBlock*>& bucket = reference[(w.record.length - 1) / kWidth];
    if (!buckets.Has(w.block)) {
      buckets.Push(w.block);
      bucket.push_back(&w.block);
      ++waiting;
    } else if (random() % 2 == 0) {
      buckets.Remove(w.block);
      bucket.erase(std::find(bucket.begin(), bucket.end(), &w.block));
      --waiting;
    }
    ASSERT_EQ(buckets.size(), static_cast<int64_t>(waiting));
    const bool begins = random() % 3 == 0;
    if (begins && waiting > 0) {
      const auto waits = [](const auto& b) { return !b.second.empty(); };
      auto next = std::find_if(reference.upper_bound(turn), reference.end(), waits);
      if (next == reference.end()) next = std::find_if(reference.begin(), next, waits);
      turn = next->first;
    }
    const auto here = reference.find(turn);
    RequestBlock* const expected =
        here == reference.end() || here->second.empty() ? nullptr : here->second.front();
    ASSERT_EQ(buckets.Next(begins), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace cellbatch
