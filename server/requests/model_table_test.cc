#include "server/requests/model_table.h"

#include <string>
#include <thread>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

TEST(ModelTableTest, AServerThatReloadsForMonthsFindsEveryVersion) {
  ModelTable<int> table;
  for (int id = 0; id < 20'000; ++id) {
    int& entry = table.Of(ModelId(id), [&] { return std::make_unique<int>(id); });
    ASSERT_EQ(entry, id);
    ASSERT_EQ(&table.Of(ModelId(id), [] { return std::make_unique<int>(-1); }), &entry);
  }
  EXPECT_EQ(*table.Find(ModelId(4095)), 4095);
  EXPECT_EQ(*table.Find(ModelId(4096)), 4096);
  EXPECT_EQ(table.Find(ModelId(20'000)), nullptr);
  EXPECT_EQ(table.Find(ModelId(kMaxModelVersions - 1)), nullptr);
  EXPECT_EQ(table.Find(ModelId(kMaxModelVersions)), nullptr);
  EXPECT_EQ(table.All().size(), 20'000u);
  EXPECT_EQ(table.Of(ModelId(kMaxModelVersions - 1), [] { return std::make_unique<int>(7); }), 7);
}

TEST(ModelTableTest, AnEntryIsMadeOnceWhoeverAsksFirst) {
  ModelTable<int> table;
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int id = 0; id < 10'000; ++id) {
        table.Of(ModelId(id), [&] { return std::make_unique<int>(made++); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 10'000);
}

}  // namespace
}  // namespace cellbatch
