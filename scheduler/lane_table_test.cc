#include "scheduler/lane_table.h"

#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

class LaneTableTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Model> MakeModel(int id) {
    const auto model = testing::OneCellModel(testing::ElmanCell(4, 4));
    model->id = ModelId(id);
    model->name = "model" + std::to_string(id);
    return model;
  }
  std::shared_ptr<Lane> MakeLane(std::shared_ptr<const Model> model) {
    const absl::StatusOr<LaneTable::Place> place = table_.FindPlace(*model);
    if (!place.ok()) return nullptr;
    SchedulerOptions options;
    options.max_requests = 16;
    std::vector<Lane::Loaded> loaded;
    const std::vector<int32_t> rows(model->tables.size(), 64);
    loaded.push_back({nullptr, std::make_unique<StateArena>(rows)});
    const std::vector<int> memory_of = {0};
    return std::make_shared<Lane>(place->index, place->serial, std::move(model), nullptr,
                                  std::move(loaded), memory_of, options);
  }
  std::shared_ptr<Lane> Put(int id) {
    std::shared_ptr<Lane> lane = MakeLane(MakeModel(id));
    if (lane != nullptr) table_.Put(lane);
    return lane;
  }

  LaneTable table_;
};

TEST_F(LaneTableTest, SubmitFindsALaneFromOpenToClose) {
  const auto lane = Put(7);
  EXPECT_FALSE(table_.OpenAt(ModelId(7)).has_value()) << "it warms";
  table_.Open(*lane);
  const auto place = table_.OpenAt(ModelId(7));
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->index, lane->index());
  EXPECT_EQ(place->serial, lane->serial());
  EXPECT_FALSE(table_.OpenAt(ModelId(8)).has_value());
  table_.Close(*lane);
  EXPECT_FALSE(table_.OpenAt(ModelId(7)).has_value());
  EXPECT_EQ(table_.Find(ModelId(7)), lane) << "it drains";
  table_.Remove(*lane);
  EXPECT_EQ(table_.Find(ModelId(7)), nullptr);
}

TEST_F(LaneTableTest, OnlyAnOpenLaneIsReadForWhatItMeasured) {
  const auto lane = Put(7);
  EXPECT_EQ(table_.FindOpen(ModelId(7)), nullptr);
  table_.Open(*lane);
  EXPECT_EQ(table_.FindOpen(ModelId(7)), lane);
  table_.Close(*lane);
  EXPECT_EQ(table_.FindOpen(ModelId(7)), nullptr);
}

TEST_F(LaneTableTest, AnIndexIsUsedAgainASerialNever) {
  std::set<uint32_t> serials;
  for (int i = 0; i < 3 * kMaxLanes; ++i) {
    const auto lane = Put(1 + i % 2);
    ASSERT_NE(lane, nullptr) << i;
    EXPECT_TRUE(serials.insert(lane->serial()).second) << lane->serial();
    table_.Open(*lane);
    table_.Close(*lane);
    table_.Remove(*lane);
  }
}

TEST_F(LaneTableTest, AModelMoreThanThereArePlacesIsRefusedByNameAndFitsWhenOneHasLeft) {
  std::vector<std::shared_ptr<Lane>> lanes;
  for (int i = 0; i < kMaxLanes; ++i) lanes.push_back(Put(i));
  const absl::Status full = table_.FindPlace(*MakeModel(999)).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "257 model versions are loaded; \"model999\" finds no lane");
  table_.Remove(*lanes[17]);
  const auto place = table_.FindPlace(*MakeModel(999));
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->index, 17);
}

TEST_F(LaneTableTest, AModelIsThereOnce) {
  Put(7);
  EXPECT_EQ(table_.FindPlace(*MakeModel(7)).status(),
            absl::AlreadyExistsError("model \"model7\" is loaded"));
}

TEST_F(LaneTableTest, WhoReadsALaneKeepsItWhenItIsRemoved) {
  table_.Open(*Put(7));
  const std::shared_ptr<const Lane> reader = table_.FindOpen(ModelId(7));
  table_.Remove(*reader);
  EXPECT_TRUE(table_.All().empty());
  EXPECT_EQ(reader->model().name, "model7");
  EXPECT_EQ(reader.use_count(), 1);
}

}  // namespace
}  // namespace cellbatch
