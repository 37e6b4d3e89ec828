// Claims about a lane's own sizes: rows of its tables, those of its warm-up, how long its types may wait.
#include "scheduler/lane.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

LaneMemories OfRows(const std::vector<std::vector<int32_t>>& rows_by_memory) {
  std::vector<LoadedInMemory> loaded;
  for (const std::vector<int32_t>& rows : rows_by_memory) {
    loaded.push_back({nullptr, std::make_unique<StateArena>(rows)});
  }
  return LaneMemories(std::move(loaded));
}

// A sentence has as many of them as states, and reads each once: they are let go last.
TEST(LaneMemoriesTest, OfTablesWithSmallRowsThereAreEightTimesAsMany) {
  Model model;
  model.tables = {{"tokens", {{"token", ElementType::kInt32, 1}}},
                  {"state", {{"h", ElementType::kFp32, 100}, {"c", ElementType::kFp32, 100}}},
                  {"logits", {{"y", ElementType::kFp32, 50}}}};
  const int64_t row_bytes = 4 * (1 + 200 + 50);
  EXPECT_EQ(DivideRows(model, 10 * row_bytes).rows, (std::vector<int32_t>{80, 10, 10}));
}

// Row 0 is everybody's zeros, and the row behind the last one is nobody's.
TEST(LaneMemoriesTest, WarmUpTasksFindRowsOfTheirOwnInTheSmallestMemory) {
  const LaneMemories memories = OfRows({{100}, {13}});
  EXPECT_EQ(memories.WarmRows(TableId(0), /*num_workers=*/1, /*batch_limit=*/512), 12);
  EXPECT_EQ(memories.WarmRows(TableId(0), 3, 512), 4);
  EXPECT_EQ(memories.WarmRows(TableId(0), 4, 512), 3);
  EXPECT_EQ(memories.WarmRows(TableId(0), 1, 8), 8);
}

TEST(LaneMemoriesTest, ARequestMayBeAsLargeAsEveryMemoryHasRoomFor) {
  const LaneMemories memories = OfRows({{1000, 50}, {100, 500}});
  const std::vector<int32_t> large = OfRows({{1000, 500}}).MaxRuns(2);
  const std::vector<int32_t> small = OfRows({{100, 50}}).MaxRuns(2);
  EXPECT_EQ(memories.MaxRuns(2), small);
  EXPECT_TRUE(memories.Fit(small));
  EXPECT_TRUE(memories.Fit(std::vector<int32_t>{large[0], small[1]}))
      << "the first memory has them";
  EXPECT_FALSE(memories.Fit(large)) << "no memory has both";
  EXPECT_EQ(memories.rows_total(), 999 + 49 + 99 + 499);
}

// Or types that take turns would all be overdue all of the time.
TEST(LaneTest, NobodyIsOverdueBeforeTheOthersHadTwoTurnsEach) {
  const auto model = testing::OneCellModel(testing::ElmanCell(4, 4));
  model->types.resize(5, model->types[0]);
  for (size_t t = 0; t < 5; ++t) model->types[t].id = CellTypeId(static_cast<int64_t>(t));
  SchedulerOptions options;
  options.max_requests = 16;
  options.max_wait_tasks = 1;
  std::vector<Lane::Loaded> loaded;
  const std::vector<int32_t> rows(model->tables.size(), 64);
  loaded.push_back({nullptr, std::make_unique<StateArena>(rows)});
  const std::vector<int> memory_of = {0};
  const Lane lane(0, 1, model, nullptr, std::move(loaded), memory_of, options);
  std::vector<TypeView> views(5);
  for (size_t t = 0; t < 5; ++t) {
    views[t].type = model->types[t].id;
    views[t].max_batch = 8;
  }
  views[3].ready = 1;
  views[3].waited = 10;
  EXPECT_NE(lane.decider().Decide(views)->reason, Decider::kOverdue);
  views[3].waited = 11;
  EXPECT_EQ(lane.decider().Decide(views)->reason, Decider::kOverdue);
}

}  // namespace
}  // namespace cellbatch
