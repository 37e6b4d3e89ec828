#include "scheduler/calibration.h"

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
  Calibration calibration(model, {1 << 20}, limit, 1, true);
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

TEST(CalibrationTest, TwoLongSizesEndTheSearchAndOneDoesNot) {
  const auto model = SmallModel();
  const auto slow = [](int, int32_t batch) { return int64_t{batch} * 1'000'000; };  // 1 ms a row
  EXPECT_EQ(Calibrate(*model, 512, slow).points.back().batch, 96);  // 64 and 96 take 60 ms and more
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

TEST(CalibrationTest, FurtherWorkersWarmEverySizeOnce) {
  const auto model = SmallModel();
  Calibration calibration(*model, {1 << 20}, 512, 2, true);
  std::vector<int32_t> seen;
  while (const auto step = calibration.Next(1)) {
    seen.push_back(step->batch);
    calibration.Started(1);
    calibration.Finished(1, Streaming(step->batch));
  }
  EXPECT_EQ(seen, CalibrationSizes(512));
  EXPECT_FALSE(calibration.done());  // worker 0 has not begun
}

}  // namespace
}  // namespace cellbatch
