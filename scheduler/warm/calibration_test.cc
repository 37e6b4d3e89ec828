#include "scheduler/warm/calibration.h"

#include <functional>

#include "gtest/gtest.h"
#include "tests/testing/builders.h"

namespace cellbatch {
namespace {

constexpr int64_t kMicro = 1000;

std::shared_ptr<Model> SmallModel() { return testing::OneCellModel(testing::ElmanCell(4, 4)); }

// Runs the calibration of one worker to its end; task n of it takes time(n, batch).
CellTypeCalibration Calibrate(const Model& model, int32_t limit,
                              const std::function<int64_t(int, int32_t)>& time) {
  Calibration calibration(model, {1 << 20}, limit, {0}, true);
  for (int n = 0; !calibration.done(); ++n) {
    const auto step = calibration.Next(0);
    calibration.Started(0);
    calibration.Finished(0, time(n, step->batch));
  }
  return calibration.Results().front();
}

// Weights stream in 100 us, whatever the batch; from 16 rows on every row costs 6.
int64_t Streaming(int32_t batch) { return std::max<int64_t>(100, 6 * batch) * kMicro; }

TEST(CalibrationTest, TheKneeIsTheSmallestBatchWithinATwentiethOfTheBestRate) {
  const auto model = SmallModel();
  const CellTypeCalibration c =
      Calibrate(*model, 512, [](int, int32_t batch) { return Streaming(batch); });
  EXPECT_EQ(c.max_batch, 16);
  EXPECT_EQ(c.points.front().batch, 1);
  EXPECT_EQ(c.points.back().batch, 512);
  for (const CalibrationPoint& p : c.points) EXPECT_EQ(p.task_ns, Streaming(p.batch)) << p.batch;
}

// T(b) = 20 + b: b/T(b) reaches 0.95 of the best, 512 / 532, at 214, and 0.98 at 332.
TEST(CalibrationTest, ThePeakIsTheSmallestBatchWithinAFiftiethOfTheBestRate) {
  const auto model = SmallModel();
  CellTypeCalibration c =
      Calibrate(*model, 512, [](int, int32_t batch) { return (20 + batch) * kMicro; });
  EXPECT_EQ(c.max_batch, 256);
  EXPECT_EQ(c.peak_batch, 384);
  c = Calibrate(*model, 512, [](int, int32_t batch) { return Streaming(batch); });
  EXPECT_EQ(c.peak_batch, 24);
  EXPECT_EQ(Peak({}), 1);
}

// Of a cheap type the knee is where a task is long enough, and the peak is not below it.
TEST(CalibrationTest, ThePeakIsNeverBelowTheKnee) {
  const auto model = SmallModel();
  for (const int64_t row_ns : {20'000, 2'000, 20}) {
    const CellTypeCalibration c =
        Calibrate(*model, 512, [=](int, int32_t b) { return std::max(6, b) * row_ns; });
    EXPECT_EQ(c.peak_batch, c.max_batch) << row_ns;
  }
}

// What a task costs beside its nodes is shared by enough of them.
TEST(CalibrationTest, OfACheapTypeAFullBatchTakesATenthOfAMillisecond) {
  const auto model = SmallModel();
  const auto knee = [&](int64_t row_ns) {
    return Calibrate(*model, 512, [=](int, int32_t b) { return std::max(6, b) * row_ns; })
        .max_batch;
  };
  EXPECT_EQ(knee(20'000), 6);
  EXPECT_EQ(knee(2'000), 64);  // 48 take 96 us
  EXPECT_EQ(knee(20), 512);    // 10 us, and no more is allowed
}

// Where larger batches are slower a row, none of them counts, however short.
TEST(CalibrationTest, AFullBatchIsNeverLargerThanWhatIsAsGoodAsTheBest) {
  const auto model = SmallModel();
  const CellTypeCalibration c = Calibrate(
      *model, 512, [](int, int32_t b) -> int64_t { return b <= 48 ? b * 1000 : b * 1200; });
  EXPECT_EQ(c.max_batch, 48);
}

// A neighbour takes the machine for 40 tasks running (more than one whole round), wherever that
// falls after the warming round: the answer stays.
TEST(CalibrationTest, OneBurstOfNoiseDoesNotMoveTheKnee) {
  const auto model = SmallModel();
  for (int start = 0; start < 110; ++start) {
    const CellTypeCalibration c = Calibrate(*model, 512, [&](int n, int32_t batch) {
      const bool burst = n >= start && n < start + 40;
      return burst ? 9 * Streaming(batch) : Streaming(batch);
    });
    EXPECT_EQ(c.max_batch, 16) << "burst from task " << start;
  }
}

TEST(CalibrationTest, NoBatchCountsAsSlowerThanALargerOne) {
  const auto model = SmallModel();
  const CellTypeCalibration c = Calibrate(*model, 64, [](int, int32_t batch) {
    return batch == 16 || batch == 24 ? 5000 * kMicro : Streaming(batch);
  });
  for (size_t i = 1; i < c.points.size(); ++i) {
    EXPECT_LE(c.points[i - 1].task_ns, c.points[i].task_ns) << c.points[i].batch;
  }
}

// Twice the knee is enough to know it; whoever shares the device waits for no more.
TEST(CalibrationTest, LongTasksGrowOnlyUntilTheKneeIsKnown) {
  const auto model = SmallModel();
  const auto slow = [](int, int32_t batch) { return std::max(8, batch) * 500 * kMicro; };
  const CellTypeCalibration c = Calibrate(*model, 512, slow);
  EXPECT_EQ(c.max_batch, 8);
  EXPECT_EQ(c.points.back().batch, 16);
}

// More than two whole rounds, wherever they fall: they may end the growth, and spoil what is measured.
TEST(CalibrationTest, ABurstOfNoiseDoesNotHideTheKneeOfLongTasks) {
  const auto model = SmallModel();
  const auto slow = [](int32_t batch) { return std::max(8, batch) * 500 * kMicro; };
  for (int start = 0; start < 60; ++start) {
    const CellTypeCalibration c = Calibrate(*model, 512, [&](int n, int32_t batch) {
      const bool burst = n >= start && n < start + 18;
      return burst ? 9 * slow(batch) : slow(batch);
    });
    EXPECT_EQ(c.max_batch, 8) << "burst from task " << start;
  }
}

TEST(CalibrationTest, TwoLongSizesEndTheSearchAndOneDoesNot) {
  const auto model = SmallModel();
  const auto slow = [](int, int32_t) { return kLongTaskNs; };  // the larger, the better: no knee
  EXPECT_EQ(Calibrate(*model, 512, slow).points.back().batch, 2);
  const auto once = [](int n, int32_t batch) {
    return n == 4 ? 2 * kLongTaskNs : Streaming(batch);
  };
  EXPECT_EQ(Calibrate(*model, 512, once).points.back().batch, 512);
}

TEST(CalibrationTest, AConfiguredLimitIsInForceAndMeasuredUpTo) {
  const auto model = SmallModel();
  model->types[0].max_batch = 20;
  const CellTypeCalibration c =
      Calibrate(*model, 512, [](int, int32_t batch) { return Streaming(batch); });
  EXPECT_EQ(c.max_batch, 20);
  EXPECT_EQ(c.points.back().batch, 20);
}

TEST(CalibrationTest, AConfiguredLimitIsMeasuredHoweverLongItTakes) {
  const auto model = SmallModel();
  model->types[0].max_batch = 40;
  const auto slow = [](int, int32_t batch) { return batch * kMicro * 1000; };
  EXPECT_EQ(Calibrate(*model, 512, slow).points.back().batch, 40);
}

// Several workers take turns, as far as they have something to do; task times by worker and batch.
class WorkersTest : public ::testing::Test {
 protected:
  using Time = std::function<int64_t(int, int32_t)>;
  void Run(Calibration& calibration, int workers, const Time& time, int most_tasks = 1 << 20) {
    for (bool any = true; any && most_tasks > 0;) {
      any = false;
      for (int w = 0; w < workers && most_tasks > 0; ++w) {
        const auto step = calibration.Next(w);
        if (!step) continue;
        any = true;
        --most_tasks;
        calibration.Started(w);
        EXPECT_FALSE(calibration.Next(w).has_value()) << "one at a time";
        calibration.Finished(w, time(w, step->batch));
      }
    }
  }
  static int64_t SameEverywhere(int, int32_t batch) { return Streaming(batch); }

  std::shared_ptr<Model> model_ = SmallModel();
};

TEST_F(WorkersTest, FurtherWorkersOfAMemoryWarmEverySizeOnce) {
  Calibration calibration(*model_, {1 << 20}, 512, {0, 0}, true);
  std::vector<int32_t> seen;
  while (const auto step = calibration.Next(1)) {
    seen.push_back(step->batch);
    calibration.Started(1);
    calibration.Finished(1, Streaming(step->batch));
  }
  EXPECT_EQ(seen, CalibrationSizes(512));
  EXPECT_FALSE(calibration.done());  // worker 0 has not begun
}

TEST_F(WorkersTest, EachMemoryHasItsOwnTimesAndItsOwnKnee) {
  Calibration calibration(*model_, {1 << 20}, 512, {0, 1, 1}, true);
  Run(calibration, 3,
      [](int w, int32_t b) { return (w == 0 ? 1 : 8) * Streaming(b) + 20 * w * b; });
  ASSERT_TRUE(calibration.done());
  const auto results = calibration.Results();
  ASSERT_EQ(results.size(), 2u);
  for (int m = 0; m < 2; ++m) {
    const CellTypeCalibration& c = results[static_cast<size_t>(m)];
    EXPECT_EQ(c.memory, m);
    EXPECT_EQ(c.max_batch, 16);
    EXPECT_EQ(c.points.front().task_ns, m == 0 ? 100 * kMicro : 800 * kMicro + 20);
  }
}

// Whenever a memory's measuring worker dies, the next one goes on, and all is known at the end.
TEST_F(WorkersTest, AMemoryIsMeasuredByWhoeverIsLeft) {
  model_->types.push_back(model_->types[0]);
  model_->types[1].id = CellTypeId(1);
  for (int tasks = 0; tasks < 400; ++tasks) {
    for (const bool out : {false, true}) {
      Calibration calibration(*model_, {1 << 20, 1 << 20}, 512, {0, 0, 1}, true);
      Run(calibration, 3, SameEverywhere, tasks);
      if (out && calibration.Next(0)) calibration.Started(0);
      const bool heir_out = out && calibration.Next(1).has_value();
      if (heir_out) calibration.Started(1);
      calibration.WorkerFailed(0);
      if (heir_out) calibration.Finished(1, 1);  // the last of its former life
      Run(calibration, 3, SameEverywhere);
      ASSERT_TRUE(calibration.done()) << tasks;
      const auto results = calibration.Results();
      ASSERT_EQ(results.size(), 4u) << tasks;
      for (const CellTypeCalibration& c : results) {
        EXPECT_EQ(c.max_batch, 16) << tasks;
        EXPECT_EQ(c.points.back().batch, 512) << tasks;
      }
    }
  }
}

TEST_F(WorkersTest, WhoIsDeadBeforeItBeganIsNotWaitedFor) {
  Calibration calibration(*model_, {1 << 20}, 512, {0, 0, 1}, true);
  calibration.WorkerFailed(0);
  calibration.WorkerFailed(2);
  Run(calibration, 3, SameEverywhere);
  EXPECT_TRUE(calibration.done());
  ASSERT_EQ(calibration.Results().size(), 1u) << "nobody computes in the other memory";
  EXPECT_EQ(calibration.Results()[0].max_batch, 16);
  EXPECT_TRUE(calibration.any_worker_left());
  calibration.WorkerFailed(1);
  EXPECT_FALSE(calibration.any_worker_left());
  EXPECT_TRUE(calibration.Results().empty());
}

}  // namespace
}  // namespace cellbatch
