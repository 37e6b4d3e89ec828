// Claims about who is first of those who wait by keys, against a sorted set.
#include "scheduler/ready/priority_heap.h"

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// Named by a number, which is never looked at as an address.
ReadyEntry Entry(uint64_t name) {
  return {nullptr, reinterpret_cast<RequestBlock*>(name)};  // NOLINT
}
uint64_t NameOf(const ReadyEntry& entry) { return reinterpret_cast<uint64_t>(entry.block); }

TEST(PriorityHeapTest, TheLeastKeyIsFirstAndOfOneKeyWhoCameFirst) {
  PriorityHeap heap(4);
  heap.Push(7, Entry(1));
  heap.Push(3, Entry(2));
  heap.Push(7, Entry(3));
  heap.Push(3, Entry(4));
  std::vector<uint64_t> order;
  while (!heap.empty()) order.push_back(NameOf(heap.PopFirst().entry));
  EXPECT_EQ(order, (std::vector<uint64_t>{2, 4, 1, 3}));
}

TEST(PriorityHeapTest, WhoIsPutBackStandsWhereItStood) {
  PriorityHeap heap(4);
  for (uint64_t name = 1; name <= 4; ++name) heap.Push(5, Entry(name));
  const PriorityHeap::Item first = heap.PopFirst(), second = heap.PopFirst();
  heap.Push(5, Entry(5));
  heap.PutBack(second);
  heap.PutBack(first);
  std::vector<uint64_t> order;
  while (!heap.empty()) order.push_back(NameOf(heap.PopFirst().entry));
  EXPECT_EQ(order, (std::vector<uint64_t>{1, 2, 3, 4, 5}));
}

TEST(PriorityHeapTest, WhateverComesAndGoesItIsAsASortedSet) {
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937 random(kSeed);
  PriorityHeap heap(16);                                                      // it grows beyond
  std::map<std::pair<uint64_t, uint64_t>, std::pair<uint64_t, int32_t>> set;  // -> name, handle
  uint64_t next = 0;
  for (int step = 0; step < 20'000; ++step) {
    const uint32_t what = random() % 10;
    if (what < 5 || set.empty()) {
      const uint64_t key = random() % 50;
      const int32_t handle = heap.Push(key, Entry(next + 1));
      set[{key, next}] = {next + 1, handle};
      ++next;
    } else if (what < 8) {
      ASSERT_EQ(NameOf(heap.First()), set.begin()->second.first);
      const PriorityHeap::Item item = heap.PopFirst();
      EXPECT_EQ(item.key, set.begin()->first.first);
      set.erase(set.begin());
    } else {
      const auto gone = std::next(set.begin(), static_cast<std::ptrdiff_t>(random() % set.size()));
      ASSERT_EQ(NameOf(heap.Remove(gone->second.second).entry), gone->second.first);
      EXPECT_FALSE(heap.Has(gone->second.second));
      set.erase(gone);
    }
    ASSERT_EQ(heap.size(), set.size());
    if (step % 500 != 0) continue;
    auto expected = set.begin();
    for (const PriorityHeap::Standing& s : heap.InOrder()) {
      ASSERT_EQ(NameOf(s.item.entry), expected->second.first);
      ASSERT_EQ(s.handle, expected->second.second);
      ++expected;
    }
  }
}

}  // namespace
}  // namespace cellbatch
