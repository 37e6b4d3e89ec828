#include "cells/recycled.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>
#include <vector>

namespace {

// What the heap was asked for, and given back, of one size.
constexpr size_t kSize = 3000;
std::atomic<int> g_made = 0, g_freed = 0;

}  // namespace

void* operator new(size_t bytes) {
  if (bytes == kSize) g_made.fetch_add(1);
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t bytes) noexcept {
  if (bytes == kSize) g_freed.fetch_add(1);
  std::free(memory);
}

namespace cellbatch {
namespace {

constexpr int kMost = 4;

struct Base {
  virtual ~Base() = default;
};
struct Item final : Base, Recycled<Item, kMost> {
  std::array<unsigned char, kSize - sizeof(void*)> bytes;
};
static_assert(sizeof(Item) == kSize);

TEST(RecycledTest, AsManyWaitAsMayAndTheOthersGoBackToTheHeap) {
  constexpr int kWait = kRecycles ? kMost : 0;
  const auto ten = [] {
    std::vector<std::unique_ptr<Base>> items;
    for (int i = 0; i < 10; ++i) items.push_back(std::make_unique<Item>());
  };
  const int made = g_made, freed = g_freed;
  ten();
  EXPECT_EQ(g_made - made, 10);
  EXPECT_EQ(g_freed - freed, 10 - kWait);
  ten();  // deleted by their base: still Item's own
  EXPECT_EQ(g_made - made, 20 - kWait);
  EXPECT_EQ(g_freed - freed, 2 * (10 - kWait));
}

TEST(RecycledTest, NoTwoThreadsHaveTheSame) {
  std::vector<std::thread> threads;
  std::atomic<int> torn = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &torn] {
      for (int i = 0; i < 20'000; ++i) {
        const auto first = std::make_unique<Item>(), second = std::make_unique<Item>();
        first->bytes.front() = first->bytes.back() = static_cast<unsigned char>(t);
        second->bytes.front() = second->bytes.back() = static_cast<unsigned char>(t + 100);
        if (first->bytes.front() != t || first->bytes.back() != t) torn.fetch_add(1);
        if (second->bytes.front() != t + 100 || second->bytes.back() != t + 100) torn.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn.load(), 0);
}

}  // namespace
}  // namespace cellbatch
