#include "scheduler/state_arena.h"

#include <map>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(RowPoolTest, RowZeroIsNeverHandedOutAndEverythingElseIs) {
  RowPool pool(17);
  std::vector<bool> seen(17);
  for (int i = 0; i < 16; ++i) {
    const auto row = pool.Reserve(1, 1);
    ASSERT_TRUE(row.has_value());
    EXPECT_GE(*row, 1);
    EXPECT_FALSE(seen[static_cast<size_t>(*row)]);
    seen[static_cast<size_t>(*row)] = true;
  }
  EXPECT_FALSE(pool.Reserve(1, 1).has_value());
  EXPECT_EQ(pool.used(), 16);
}

TEST(RowPoolTest, WhenAllIsFreeEveryAdmissibleRunFits) {
  for (int32_t rows : {2, 3, 16, 17, 18, 31, 33, 100, 1000, 1023, 1024, 1025, 65537, 1000003}) {
    RowPool pool(rows);
    std::vector<int32_t> tries = {1, pool.MaxRun() / 2, pool.MaxRun() - 1, pool.MaxRun()};
    for (int32_t n : tries) {
      if (n < 1) continue;
      const auto row = pool.Reserve(9, n);
      ASSERT_TRUE(row.has_value()) << n << " of " << rows;
      pool.Release(9, *row, n);
      ASSERT_TRUE(pool.Consistent());
    }
  }
}

// The reference knows who owns each row; the pool must agree after every step.
TEST(RowPoolTest, RandomReservationsNeverOverlapAndCoalesceToNothing) {
  constexpr uint32_t kSeed = 20260101;
  std::mt19937 random(kSeed);
  RowPool pool(5000);
  std::vector<uint32_t> owner_of(5000, 0);
  struct Run {
    uint32_t owner;
    Row first;
    int32_t count;
  };
  std::vector<Run> runs;
  int refused = 0;
  for (uint32_t step = 1; step <= 40000; ++step) {
    if (runs.empty() || random() % 100 < 54) {
      const int32_t count = 1 + static_cast<int32_t>(random() % (random() % 4 == 0 ? 300 : 12));
      const auto first = pool.Reserve(step, count);
      if (!first) {
        ++refused;
        continue;
      }
      for (Row r = *first; r < *first + count; ++r) {
        ASSERT_EQ(owner_of[static_cast<size_t>(r)], 0u) << "seed " << kSeed << " step " << step;
        owner_of[static_cast<size_t>(r)] = step;
      }
      runs.push_back({step, *first, count});
    } else {
      std::swap(runs[random() % runs.size()], runs.back());
      const Run run = runs.back();
      runs.pop_back();
      pool.Release(run.owner, run.first, run.count);
      for (Row r = run.first; r < run.first + run.count; ++r) owner_of[static_cast<size_t>(r)] = 0;
    }
    if (step % 500 == 0) {
      ASSERT_TRUE(pool.Consistent()) << "seed " << kSeed << " step " << step;
    }
  }
  EXPECT_GT(refused, 100) << "the pool never filled: the test shows little";
  for (const Run& run : runs) pool.Release(run.owner, run.first, run.count);
  EXPECT_EQ(pool.used(), 0);
  EXPECT_TRUE(pool.Consistent());
  EXPECT_TRUE(pool.Reserve(1, pool.MaxRun()).has_value()) << "something did not coalesce";
}

TEST(RowPoolTest, WhatWasGivenBackComesNextForAnyCountOfItsBin) {
  RowPool pool(5000);
  const Row first = *pool.Reserve(1, 97);  // 97 to 100 make one bin
  EXPECT_EQ(pool.used(), 100);
  pool.Reserve(1, 97);
  pool.Release(1, first, 97);
  EXPECT_EQ(pool.Reserve(2, 100), first);
  pool.Release(2, first, 100);
  EXPECT_NE(pool.Reserve(3, 101), first);
  EXPECT_EQ(pool.Reserve(4, 98), first);
  EXPECT_EQ(pool.OwnerAt(first), 4u);
  EXPECT_TRUE(pool.Consistent());
}

TEST(RowPoolTest, AChangeOfLengthsDoesNotDeadLock) {
  RowPool pool(65);
  std::vector<Row> rows;
  for (int i = 0; i < 64; ++i) rows.push_back(*pool.Reserve(1, 1));
  for (Row row : rows) pool.Release(1, row, 1);
  EXPECT_TRUE(pool.Reserve(2, pool.MaxRun()).has_value()) << "single rows were kept apart";
  EXPECT_TRUE(pool.Consistent());
}

TEST(RowPoolDeathTest, OnlyTheOwnerReturnsRowsAndOnlyOnce) {
  RowPool pool(100);
  const Row row = *pool.Reserve(7, 10);
  EXPECT_DEATH(pool.Release(8, row, 10), "does not own");
  EXPECT_DEATH(pool.Release(7, row, 9), "does not own");
  pool.Release(7, row, 10);
  EXPECT_DEATH(pool.Release(7, row, 10), "does not own");
}

TEST(StateArenaTest, ARequestGetsAllItsRowsOrNone) {
  StateArena arena(std::vector<int32_t>{100, 11, 100});
  std::vector<Row> bases(3, -5);
  ASSERT_TRUE(arena.Reserve(1, {20, 9, 0}, absl::MakeSpan(bases)));
  EXPECT_EQ(bases[2], -5);
  std::vector<Row> second(3);
  EXPECT_FALSE(arena.Reserve(2, {20, 2, 3}, absl::MakeSpan(second)));
  EXPECT_EQ(arena.rows_used(), 29);
  EXPECT_EQ(arena.pool(TableId(0)).used(), 20);
  EXPECT_TRUE(arena.pool(TableId(0)).Consistent());
  arena.Release(1, {20, 9, 0}, bases);
  EXPECT_TRUE(arena.Reserve(2, {20, 2, 3}, absl::MakeSpan(second)));
  EXPECT_EQ(arena.pool(TableId(1)).OwnerAt(second[1]), 2u);
}

}  // namespace
}  // namespace cellbatch
