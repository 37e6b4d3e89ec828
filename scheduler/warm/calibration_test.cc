#include "scheduler/warm/calibration.h"

#include <functional>
#include <map>

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

// T(b) = 20 + b: b/T(b) reaches 0.95 of the best, 512 / 532, at 214, and b/(T(b) + 5) 0.98 of 512 / 537 at 359.
TEST(CalibrationTest, ThePeakIsTheSmallestBatchWithinAFiftiethOfTheBestRate) {
  const auto model = SmallModel();
  CellTypeCalibration c =
      Calibrate(*model, 512, [](int, int32_t batch) { return (20 + batch) * kMicro; });
  EXPECT_EQ(c.max_batch, 256);
  EXPECT_EQ(c.peak_batch, 384);
  // 6 us a row, and 5 beside each task: b/T(b) alone would say 24.
  c = Calibrate(*model, 512, [](int, int32_t batch) { return Streaming(batch); });
  EXPECT_EQ(c.peak_batch, 48);
  EXPECT_EQ(Peak({}), 1);
}

// Of a cheap type the knee is where a task is long enough, and the peak is not below it.
TEST(CalibrationTest, ThePeakIsNeverBelowTheKnee) {
  const auto model = SmallModel();
  const std::vector<std::tuple<int64_t, int, int>> cases = {
      {20'000, 6, 12}, {2'000, 64, 128}, {20, 512, 512}};
  for (const auto& [row_ns, knee, peak] : cases) {
    const CellTypeCalibration c =
        Calibrate(*model, 512, [row = row_ns](int, int32_t b) { return std::max(6, b) * row; });
    EXPECT_EQ(c.max_batch, knee) << row_ns;
    EXPECT_EQ(c.peak_batch, peak) << row_ns;
  }
  // A smaller batch is good enough for a peak, but its task is too short for a knee.
  EXPECT_EQ(Peak(std::vector<CalibrationPoint>{{96, 99 * kMicro}, {128, 132 * kMicro}}), 128);
}

// Rows beyond those of its table are somebody else's, or nobody's.
TEST(CalibrationTest, NoTaskHasMoreNodesThanItsTypeHasRows) {
  const auto model = SmallModel();
  model->types.resize(4, model->types[0]);
  for (int t = 0; t < 4; ++t) model->types[static_cast<size_t>(t)].id = CellTypeId(t);
  model->types[2].max_batch = 100;
  const Calibration calibration(*model, {1 << 20, 6, 40, 0}, 512, {0}, true);
  EXPECT_EQ(calibration.sizes(CellTypeId(0)).back(), 512);
  EXPECT_EQ(calibration.sizes(CellTypeId(1)), (std::vector<int32_t>{1, 2, 3, 4, 6}));
  EXPECT_EQ(calibration.sizes(CellTypeId(2)).back(), 40);
  EXPECT_EQ(calibration.sizes(CellTypeId(3)), std::vector<int32_t>{1});
}

// A size that was disturbed in every round: a larger task does all that it does.
TEST(CalibrationTest, NoBatchTakesLongerThanALargerOne) {
  const auto model = SmallModel();
  const CellTypeCalibration c = Calibrate(*model, 512, [](int, int32_t batch) {
    return batch == 8 ? 5'000 * kMicro : Streaming(batch);
  });
  ASSERT_EQ(c.points[5].batch, 8);
  EXPECT_EQ(c.points[5].task_ns, Streaming(12));
  EXPECT_EQ(c.max_batch, 16);
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

// A task of more nodes than that finds no room in its ring.
TEST(CalibrationTest, NoConfiguredSizeIsBeyondTheBatchLimit) {
  CellType type;
  type.max_batch = 4;
  type.peak_batch = 4096;
  EXPECT_EQ(SizesInForce(type, {}, 64).max_batch, 4);
  EXPECT_EQ(SizesInForce(type, {}, 64).peak_batch, 64);
  type.max_batch = 100;
  EXPECT_EQ(SizesInForce(type, {}, 64).max_batch, 64);
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

// T(b)'s knee is 16 and its peak 48.
TEST(CalibrationTest, AMeasuredLimitIsNoLessThanItsModelWants) {
  const auto model = SmallModel();
  const std::vector<std::tuple<int, int, int>> cases = {
      {0, 16, 48}, {8, 16, 48}, {32, 32, 48}, {100, 100, 100}, {1000, 512, 512}};
  for (const auto& [least, max_batch, peak] : cases) {
    model->types[0].least_max_batch = least;
    const CellTypeCalibration c =
        Calibrate(*model, 512, [](int, int32_t batch) { return Streaming(batch); });
    EXPECT_EQ(c.max_batch, max_batch) << least;
    EXPECT_EQ(c.peak_batch, peak) << least;
  }
}

TEST(CalibrationTest, WhatIsToBeInForceIsMeasuredHoweverEarlyTheKneeIsKnown) {
  const auto model = SmallModel();
  const auto slow = [](int, int32_t batch) { return batch * kMicro * 1000; };
  EXPECT_EQ(Calibrate(*model, 512, slow).points.back().batch, 4);
  model->types[0].least_max_batch = 40;
  EXPECT_EQ(Calibrate(*model, 512, slow).points.back().batch, 48);
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

// No size of any type is touched there for the first time by a request.
TEST_F(WorkersTest, WhoGoesOnForAnotherHasWarmedAllThatItRuns) {
  model_->types.push_back(model_->types[0]);
  model_->types[1].id = CellTypeId(1);
  const auto next = [](const Calibration& calibration, int worker) {
    const std::optional<Calibration::Step> step = calibration.Next(worker);
    return step ? std::pair(step->type, step->batch) : std::pair(-1, 0);
  };
  Calibration late(*model_, {1 << 20, 1 << 20}, 8, {0, 0}, true);
  while (late.Next(0)->type == 0) Run(late, 1, SameEverywhere, 1);
  late.WorkerFailed(0);
  EXPECT_EQ(next(late, 1), std::pair(0, 1)) << "what was measured is still to be warmed here";

  Calibration ahead(*model_, {1 << 20, 1 << 20}, 8, {0, 0}, true);
  while (ahead.Next(1)->type == 0) {
    const int32_t batch = ahead.Next(1)->batch;
    ahead.Started(1);
    ahead.Finished(1, Streaming(batch));
  }
  ahead.Started(1);
  ahead.WorkerFailed(0);
  ahead.Finished(1, Streaming(1));
  EXPECT_EQ(next(ahead, 1), std::pair(0, 1)) << "what was out was of another type";
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

// T(b) of an earlier start is known.
class KnownTimesTest : public WorkersTest {
 protected:
  static constexpr int kWarmed = 18;  // sizes up to 512
  static constexpr int kConfirmed = 5 * kCalibrationRounds;
  static constexpr int kMeasured = kWarmed * kCalibrationRounds;

  static std::vector<CalibrationPoint> Times(const std::function<int64_t(int32_t)>& time,
                                             int32_t limit = 512) {
    std::vector<CalibrationPoint> points;
    for (const int32_t b : CalibrationSizes(limit)) points.push_back({b, time(b)});
    return points;
  }
  // One worker; what it ran, by size.
  std::map<int32_t, int> RunCounted(Calibration& calibration,
                                    const std::function<int64_t(int, int32_t)>& time) {
    std::map<int32_t, int> ran;
    int n = 0;
    Run(calibration, 1, [&](int, int32_t batch) {
      ++ran[batch];
      return time(n++, batch);
    });
    EXPECT_TRUE(calibration.done());
    return ran;
  }
  static int Sum(const std::map<int32_t, int>& ran) {
    int sum = 0;
    for (const auto& [_, count] : ran) sum += count;
    return sum;
  }
};

TEST_F(KnownTimesTest, WhatIsConfirmedIsNotMeasuredAgain) {
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times(Streaming));
  const auto ran = RunCounted(calibration, [](int, int32_t b) { return Streaming(b); });
  EXPECT_EQ(ran.size(), static_cast<size_t>(kWarmed)) << "every size is warmed";
  for (const auto& [batch, count] : ran) {
    const bool looked_at = batch == 1 || batch == 12 || batch == 16 || batch == 24 || batch == 512;
    EXPECT_EQ(count, looked_at ? 1 + kCalibrationRounds : 1) << batch;
  }
  EXPECT_EQ(Sum(ran), kWarmed + kConfirmed);
  const CellTypeCalibration c = calibration.Results().front();
  EXPECT_TRUE(c.kept);
  EXPECT_EQ(c.max_batch, 16);
  EXPECT_EQ(c.peak_batch, 48);
}

// Within what is believed, whatever is seen: T(b), and so b_max, are those of the start before.
TEST_F(KnownTimesTest, WhatIsConfirmedStandsStill) {
  for (const double pace : {0.9, 1.4}) {
    Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
    calibration.Know(0, CellTypeId(0), Times(Streaming));
    RunCounted(calibration, [&](int n, int32_t b) {
      return static_cast<int64_t>(pace * static_cast<double>(Streaming(b))) + n % 7;
    });
    const CellTypeCalibration c = calibration.Results().front();
    EXPECT_TRUE(c.kept) << pace;
    EXPECT_EQ(c.max_batch, 16) << pace;
    EXPECT_EQ(c.peak_batch, 48) << pace;
    for (const CalibrationPoint& p : c.points) EXPECT_EQ(p.task_ns, Streaming(p.batch)) << pace;
  }
}

// One round in which it is not there is enough.
TEST_F(KnownTimesTest, ANeighbourForThreeRoundsDoesNotMakeItMeasure) {
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times(Streaming));
  const auto ran = RunCounted(calibration, [](int n, int32_t b) {
    return n < kWarmed + 3 * 5 ? 9 * Streaming(b) : Streaming(b);
  });
  EXPECT_EQ(Sum(ran), kWarmed + kConfirmed);
  EXPECT_TRUE(calibration.Results().front().kept);
}

// Twice as slow as then: another machine under the same name, or a neighbour who stays. What is measured now counts.
TEST_F(KnownTimesTest, WhatCannotBeReachedIsMeasuredInFull) {
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times([](int32_t b) { return Streaming(b) / 2; }));
  const auto ran = RunCounted(calibration, [](int, int32_t b) { return Streaming(b); });
  EXPECT_EQ(Sum(ran), kWarmed + 5 * kMostConfirmingRounds + kWarmed + kMeasured);
  const CellTypeCalibration c = calibration.Results().front();
  EXPECT_FALSE(c.kept);
  EXPECT_EQ(c.max_batch, 16);
  for (const CalibrationPoint& p : c.points) EXPECT_EQ(p.task_ns, Streaming(p.batch)) << p.batch;
  for (const CalibrationPoint& p : calibration.LeastKnown(0, CellTypeId(0))) {
    EXPECT_EQ(p.task_ns, Streaming(p.batch) / 2) << "for the next start";
  }
}

// Longer than it would have measured: whoever comes back to it finds it as it was.
TEST_F(KnownTimesTest, ItIsGivenAsManyRoundsAsItTakesToReachIt) {
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times(Streaming));
  const auto ran = RunCounted(calibration, [](int n, int32_t b) {
    return n < kWarmed + 5 * 10 ? 9 * Streaming(b) : Streaming(b);
  });
  EXPECT_EQ(Sum(ran), kWarmed + 5 * 11);
  EXPECT_TRUE(calibration.Results().front().kept);
}

// Then a neighbour spoiled four rounds of 16 to 48 rows, by as little as moved the knee. The size below it says so; and
// where a neighbour spoils something now, what was known of it is not lost.
TEST_F(KnownTimesTest, WhatIsBeatenIsMeasuredInFullAndTheLeastOfBothCounts) {
  const auto spoiled = [](int32_t b) { return b >= 16 && b <= 48 ? 320 * kMicro : Streaming(b); };
  ASSERT_EQ(Knee(Times(spoiled)), 64);
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times(spoiled));
  auto ran = RunCounted(calibration,
                        [](int, int32_t b) { return b == 256 ? Streaming(384) : Streaming(b); });
  EXPECT_EQ(ran[48], 2 + 2 * kCalibrationRounds) << "looked at, and measured with all others";
  EXPECT_EQ(ran[32], 2 + kCalibrationRounds);
  const CellTypeCalibration c = calibration.Results().front();
  EXPECT_FALSE(c.kept) << "it is to be kept anew";
  EXPECT_EQ(c.max_batch, 16);
  for (const CalibrationPoint& p : c.points) EXPECT_EQ(p.task_ns, Streaming(p.batch)) << p.batch;
}

// The other way round: large batches seemed worse than they are, so that the knee seemed to be enough.
TEST_F(KnownTimesTest, AKneeThatIsNoLongerGoodEnoughIsMeasuredInFull) {
  const auto spoiled = [](int32_t b) { return b < 64 ? Streaming(b) : Streaming(b) * 21 / 20; };
  const auto now = [](int32_t b) { return b < 64 ? Streaming(b) : Streaming(b) * 47 / 50; };
  ASSERT_EQ(Knee(Times(spoiled)), 16);
  for (const bool better : {false, true}) {
    Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
    calibration.Know(0, CellTypeId(0), Times(spoiled));
    RunCounted(calibration, [&](int, int32_t b) { return better ? now(b) : Streaming(b); });
    EXPECT_EQ(calibration.Results().front().kept, !better);
    EXPECT_EQ(calibration.Results().front().max_batch, better ? 64 : 16);
  }
}

// Else it would be measured at every start, and what was kept is as good.
TEST_F(KnownTimesTest, AKneeThatMovesByLittleStandsStill) {
  // 12 rows are 0.92 of the best, 16 all of it.
  const auto then = [](int32_t b) { return b < 12 ? 115 * kMicro : std::max(13, b) * 10 * kMicro; };
  // 96 us of 48 rows are as good, and no knee: they are too short.
  const auto cheap = [](int32_t b) { return std::max(6, b) * 2 * kMicro; };
  ASSERT_EQ(Knee(Times(then)), 16);
  ASSERT_EQ(Knee(Times(cheap)), 64);
  const auto kept = [&](const std::function<int64_t(int32_t)>& known,
                        const std::function<int64_t(int32_t)>& now) {
    Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
    calibration.Know(0, CellTypeId(0), Times(known));
    RunCounted(calibration, [&](int, int32_t b) { return now(b); });
    return calibration.Results().front().kept;
  };
  EXPECT_TRUE(kept(then, [&](int32_t b) { return b == 12 ? 124 * kMicro : then(b); }))
      << "0.97 of the best, of which 0.95 is a knee";
  EXPECT_TRUE(kept(then, [&](int32_t b) { return b == 512 ? then(b) * 93 / 100 : then(b); }))
      << "the knee is 0.93 of the best";
  EXPECT_TRUE(kept(cheap, cheap));
}

// What a clock and a wake-up cost is half of a task of microseconds.
TEST_F(KnownTimesTest, OfTasksOfMicrosecondsAFewMoreOrFewerAreNoOtherTime) {
  for (const auto& [then_ns, now_ns] : {std::pair(2000, 6000), {6000, 2000}}) {
    Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
    calibration.Know(0, CellTypeId(0), Times([&](int32_t b) { return then_ns + 20 * b; }));
    RunCounted(calibration, [&](int, int32_t b) { return now_ns + 20 * b; });
    EXPECT_TRUE(calibration.Results().front().kept) << then_ns << " ns, then " << now_ns;
  }
}

// Small batches are faster than then, all others slower than is believed.
TEST_F(KnownTimesTest, OfWhatCannotBeReachedTheLeastOfBothIsForTheNextStart) {
  const auto now = [](int32_t b) { return b <= 4 ? 30 * kMicro : Streaming(b); };
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times([](int32_t b) { return Streaming(b) / 2; }));
  RunCounted(calibration, [&](int, int32_t b) { return now(b); });
  EXPECT_FALSE(calibration.Results().front().kept);
  for (const CalibrationPoint& p : calibration.LeastKnown(0, CellTypeId(0))) {
    EXPECT_EQ(p.task_ns, std::min(now(p.batch), Streaming(p.batch) / 2)) << p.batch;
  }
}

TEST_F(KnownTimesTest, WhatNoCalibrationOfTheseSizesLeftIsNotLookedAt) {
  const auto good = Times(Streaming);
  auto other_sizes = good, falls = good, zero = good, too_many = good;
  other_sizes[3].batch = 5;
  falls[4].task_ns = 1;
  zero[0].task_ns = 0;
  too_many.push_back({1024, good.back().task_ns});
  for (const auto& known : {other_sizes, falls, zero, too_many, {}}) {
    Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
    calibration.Know(0, CellTypeId(0), known);
    const auto ran = RunCounted(calibration, [](int, int32_t b) { return Streaming(b); });
    EXPECT_EQ(Sum(ran), kWarmed + kMeasured);
    EXPECT_FALSE(calibration.Results().front().kept);
  }
}

// What ended the growth then ends it now: no size is tried that nobody will use.
TEST_F(KnownTimesTest, LongTasksAreWarmedAsFarAsTheyAreKnown) {
  const auto slow = [](int32_t b) { return std::max(8, b) * 500 * kMicro; };
  Calibration calibration(*model_, {1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(0), Times(slow, 24));
  const auto ran = RunCounted(calibration, [&](int, int32_t b) { return slow(b); });
  EXPECT_EQ(ran.rbegin()->first, 24);
  EXPECT_EQ(calibration.Results().front().max_batch, 8);
  EXPECT_TRUE(calibration.Results().front().kept);
}

TEST_F(KnownTimesTest, TypesThatAreKnownStandBesideThoseThatAreNot) {
  model_->types.resize(3, model_->types[0]);
  for (int t = 0; t < 3; ++t) model_->types[static_cast<size_t>(t)].id = CellTypeId(t);
  Calibration calibration(*model_, {1 << 20, 1 << 20, 1 << 20}, 512, {0}, true);
  calibration.Know(0, CellTypeId(1), Times(Streaming));
  const auto ran = RunCounted(calibration, [](int, int32_t b) { return Streaming(b); });
  EXPECT_EQ(Sum(ran), 3 * kWarmed + 2 * kMeasured + kConfirmed);
  const auto results = calibration.Results();
  ASSERT_EQ(results.size(), 3u);
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(results[static_cast<size_t>(t)].kept, t == 1);
    EXPECT_EQ(results[static_cast<size_t>(t)].max_batch, 16);
  }
}

// Whenever it dies, while it warms, confirms or measures what it does not believe.
TEST_F(KnownTimesTest, WhoeverIsLeftConfirms) {
  model_->types.push_back(model_->types[0]);
  model_->types[1].id = CellTypeId(1);
  for (const int64_t pace : {1, 2}) {
    for (int tasks = 0; tasks < 300; ++tasks) {
      for (const bool out : {false, true}) {
        Calibration calibration(*model_, {1 << 20, 1 << 20}, 512, {0, 0, 1}, true);
        calibration.Know(0, CellTypeId(0), Times(Streaming));
        calibration.Know(0, CellTypeId(1), Times(Streaming));
        const auto time = [&](int, int32_t b) { return pace * Streaming(b); };
        Run(calibration, 3, time, tasks);
        const bool heir_out = out && calibration.Next(1).has_value();
        if (heir_out) calibration.Started(1);
        calibration.WorkerFailed(0);
        if (heir_out) calibration.Finished(1, pace * 5);
        Run(calibration, 3, time);
        ASSERT_TRUE(calibration.done()) << tasks;
        const auto results = calibration.Results();
        ASSERT_EQ(results.size(), 4u) << tasks;
        for (const CellTypeCalibration& c : results) {
          EXPECT_EQ(c.kept, c.memory == 0 && pace == 1) << tasks;
          EXPECT_EQ(c.max_batch, 16) << tasks;
          EXPECT_EQ(c.points.back().batch, pace == 1 ? 512 : 384) << tasks;
        }
      }
    }
  }
}

TEST_F(KnownTimesTest, WhereNothingIsMeasuredNothingIsConfirmed) {
  Calibration calibration(*model_, {1 << 20}, 512, {0}, false);
  calibration.Know(0, CellTypeId(0), Times(Streaming));
  EXPECT_EQ(Sum(RunCounted(calibration, [](int, int32_t b) { return Streaming(b); })), 1);
  EXPECT_FALSE(calibration.Results().front().kept);
  EXPECT_TRUE(calibration.Results().front().points.empty());
}

}  // namespace
}  // namespace cellbatch
