#include "server/requests/model_table.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "server/requests/model_ids.h"

namespace cellbatch {
namespace {

// Counts how many of it there are.
struct Counted {
  Counted(int the_value, std::atomic<int>& the_alive) : value(the_value), alive(the_alive) {
    ++alive;
  }
  ~Counted() { --alive; }
  const int value;
  std::atomic<int>& alive;
};

std::shared_ptr<const Model> Held(ModelIds& ids, int64_t version) {
  auto model = std::make_shared<Model>();
  const auto id = ids.Take();
  EXPECT_TRUE(id.ok()) << id.status();
  model->id = *id;
  model->version = version;
  return ids.Hold(std::move(model));
}

TEST(ModelTableTest, AServerThatReloadsForMonthsFindsEveryVersionAndKeepsWhatIsThere) {
  std::atomic<int> alive = 0;
  const auto ids = ModelIds::Make(nullptr);
  ModelTable<Counted> table;
  std::set<int32_t> seen;
  std::shared_ptr<const Model> serving;
  for (int version = 0; version < 20'000; ++version) {
    const auto next = Held(*ids, version);
    Counted& entry = table.Of(next->id, [&] { return std::make_unique<Counted>(version, alive); });
    ASSERT_EQ(entry.value, version);
    ASSERT_EQ(&table.Of(next->id, [&] { return std::make_unique<Counted>(-1, alive); }), &entry);
    if (serving != nullptr) {
      ASSERT_EQ(table.Find(serving->id)->value, version - 1) << "the one before still answers";
    }
    ASSERT_TRUE(seen.insert(next->id.value()).second) << "an id that was another's";
    serving = next;
    ASSERT_LE(alive, 2);
  }
  EXPECT_LE(ids->taken(), 1);
  EXPECT_EQ(table.Find(ModelId(0)), nullptr) << "of a turn long ago";
  EXPECT_EQ(table.Find(ModelId()), nullptr);
}

TEST(ModelTableTest, AnEntryIsMadeOnceWhoeverAsksFirst) {
  ModelTable<int> table;
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int id = 0; id < kModelPlaces; ++id) {
        table.Of(ModelId(id), [&] { return std::make_unique<int>(made++); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, kModelPlaces);
}

// What requests do while versions come and go: each holds its model, asks, and lets go last now and then.
TEST(ModelTableTest, WhoHoldsAModelFindsItsOwnEntryWhileOthersTakeThePlacesOfThoseThatWent) {
  const auto ids = ModelIds::Make(nullptr);
  ModelTable<int64_t> table;
  std::mutex mutex;
  std::shared_ptr<const Model> serving = Held(*ids, 0);
  std::atomic<bool> over = false;
  std::atomic<int64_t> wrong = 0, asked = 0;
  std::vector<std::thread> requests;
  for (int t = 0; t < 3; ++t) {
    requests.emplace_back([&] {
      while (!over) {
        std::unique_lock lock(mutex);
        const std::shared_ptr<const Model> model = serving;
        lock.unlock();
        for (int i = 0; i < 3; ++i) {
          const int64_t found =
              table.Of(model->id, [&] { return std::make_unique<int64_t>(model->version); });
          wrong += found == model->version ? 0 : 1;
        }
        ++asked;
      }
    });
  }
  for (int64_t version = 1; version < 20'000; ++version) {
    std::shared_ptr<const Model> next = Held(*ids, version);
    const std::lock_guard lock(mutex);
    serving.swap(next);
  }
  while (asked < 1000) std::this_thread::yield();
  over = true;
  for (std::thread& request : requests) request.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ModelIdsTest, APlaceIsFreeWhenTheLastOneLetsGoAndWhoeverListensHearsItBefore) {
  std::vector<int32_t> gone;
  const auto ids = ModelIds::Make([&](ModelId id) { gone.push_back(id.value()); });
  auto first = Held(*ids, 1);
  auto second = Held(*ids, 2);
  EXPECT_EQ(first->id, ModelId(0));
  EXPECT_EQ(second->id, ModelId(1));
  const auto request = first;
  first.reset();
  EXPECT_TRUE(gone.empty()) << "a request still has it";
  EXPECT_EQ(ids->Take()->value(), 2);
  const_cast<std::shared_ptr<const Model>&>(request).reset();
  EXPECT_EQ(gone, std::vector<int32_t>{0});
  EXPECT_EQ(ids->Take()->value(), kModelPlaces) << "the first place again, its second turn";
  ids->GiveBack(ModelId(kModelPlaces));
  EXPECT_EQ(ids->Take()->value(), 2 * kModelPlaces);
}

TEST(ModelIdsTest, MoreThanThereArePlacesAreRefusedAndTurnsBeginAgainBeforeTheyRunOut) {
  const auto ids = ModelIds::Make(nullptr);
  for (int i = 0; i < kModelPlaces; ++i) ASSERT_TRUE(ids->Take().ok()) << i;
  const absl::Status full = ids->Take().status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(full.message()),
            "4096 model versions are loaded, or unloaded and still held by requests, the most is "
            "4096");
  for (int turn = 0; turn < kModelTurns + 5; ++turn) {
    ids->GiveBack(ModelId(17));
    const auto id = ids->Take();
    ASSERT_TRUE(id.ok() && id->valid()) << turn;
    ASSERT_EQ(PlaceOf(*id), 17u);
  }
}

}  // namespace
}  // namespace cellbatch
