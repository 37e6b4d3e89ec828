// Schedulers that start one after the other with one shelf.
#include "gtest/gtest.h"
#include "scheduler/record/memory_recorder.h"
#include "scheduler/record/schedule_replay.h"
#include "scheduler/scheduler_test_world.h"
#include "scheduler/warm/map_shelf.h"

namespace cellbatch {
namespace {

using scheduler_testing::kChain;
using scheduler_testing::MakeModel;
using scheduler_testing::World;
using scheduler_testing::WorldOptions;
using testing::MapShelf;

class KeptStartTest : public ::testing::Test {
 protected:
  struct Started {
    uint64_t tasks = 0;  // of the device, until the model served
    std::vector<CellTypeCalibration> calibration;
    int kept() const {
      int kept = 0;
      for (const CellTypeCalibration& c : calibration) kept += c.kept ? 1 : 0;
      return kept;
    }
  };

  Started Start(MapShelf* shelf, Recorder* recorder = nullptr, int64_t task_ns = 200'000) const {
    WorldOptions options;
    options.cost = {.task_ns = task_ns, .node_ns = 10'000};
    options.calibrate = true;
    options.scheduler.calibration_shelf = shelf;
    options.scheduler.recorder = recorder;
    World world(options);
    world.Add(model_);
    const Started started = {world.scheduler().stats().Devices()[0].tasks,
                             world.scheduler().Calibration(model_->id)};
    world.Submit(world.Sentence(model_, 5), 1);
    world.Run();
    EXPECT_TRUE(world.TheOne()->status.ok());
    world.ExpectClean();
    return started;
  }

  const std::shared_ptr<Model> model_ = MakeModel(ModelId(1), {0, 0, 0, 0, 0});
};

TEST_F(KeptStartTest, TheSecondStartRunsAFractionOfTheTasksAndHasTheSameLimits) {
  MapShelf shelf;
  const Started first = Start(&shelf), second = Start(&shelf);
  EXPECT_EQ(first.kept(), 0);
  EXPECT_EQ(second.kept(), static_cast<int>(model_->types.size()));
  EXPECT_LT(2 * second.tasks, first.tasks);
  ASSERT_EQ(first.calibration.size(), second.calibration.size());
  for (size_t t = 0; t < first.calibration.size(); ++t) {
    EXPECT_EQ(second.calibration[t].max_batch, first.calibration[t].max_batch);
    EXPECT_EQ(second.calibration[t].peak_batch, first.calibration[t].peak_batch);
    EXPECT_EQ(second.calibration[t].points.size(), first.calibration[t].points.size());
  }
  const int told = shelf.told;
  Start(&shelf);
  EXPECT_EQ(shelf.told, told) << "what is confirmed is not written again";
}

// Whoever was disturbed for a start does not make the next one forget.
TEST_F(KeptStartTest, OnASlowerDeviceItIsMeasuredAndWhatWasKeptStays) {
  MapShelf shelf;
  const Started first = Start(&shelf);
  const size_t entries = shelf.kept.size();
  const Started slower = Start(&shelf, nullptr, 2'000'000),
                again = Start(&shelf, nullptr, 2'000'000);
  EXPECT_EQ(slower.kept(), 0);
  EXPECT_EQ(slower.calibration[0].points[0].task_ns, 2'010'000);
  EXPECT_EQ(again.kept(), 0);
  EXPECT_EQ(again.tasks, slower.tasks);
  EXPECT_EQ(shelf.kept.size(), entries);
  const Started as_before = Start(&shelf);
  EXPECT_EQ(as_before.kept(), static_cast<int>(model_->types.size()));
  EXPECT_EQ(as_before.calibration[0].max_batch, first.calibration[0].max_batch);
  EXPECT_EQ(as_before.calibration[0].points[0].task_ns, 210'000);
}

// A record holds what its T(b) was made of, and is taken again by who has no shelf.
TEST_F(KeptStartTest, WhoRecordsMeasuresAndTheRecordIsReplayed) {
  MapShelf shelf;
  const Started first = Start(&shelf);
  MemoryRecorder recorder;
  const Started recorded = Start(&shelf, &recorder);
  EXPECT_EQ(recorded.tasks, first.tasks);
  EXPECT_EQ(recorded.kept(), 0);
  ReplayOptions options;
  options.check_invariants = true;
  const auto report = ReplaySchedule(recorder.run(), options, SteadyClock());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->same()) << report->difference;
  EXPECT_EQ(report->ends_early, "");
}

}  // namespace
}  // namespace cellbatch
