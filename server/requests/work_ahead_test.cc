// Claims about how long what is in flight will take, with T(b_max) = 4 ms for 4 cells: a cell is 1 ms of work.
#include "server/requests/work_ahead.h"

#include "gtest/gtest.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

constexpr int64_t kMs = 1'000'000;

std::vector<CellTypeCalibration> FourAtOnce() {
  return {{.memory = 0,
           .type = CellTypeId(0),
           .max_batch = 4,
           .points = {{1, 2 * kMs}, {4, 4 * kMs}, {8, 100 * kMs}}}};
}

CellGraph Chain(const Model& model, int32_t length) {
  CellGraph graph;
  graph.Add(CellTypeId(0), length, {});
  const absl::Status status = graph.Seal(model, 1);
  EXPECT_TRUE(status.ok()) << status;
  return graph;
}

class WorkAheadTest : public ::testing::Test {
 protected:
  explicit WorkAheadTest(int devices = 1) : ahead_(*model_, FourAtOnce(), devices) {}
  RequestWork Chain(int32_t length) const {
    return ahead_.Of(cellbatch::Chain(*model_, length), 0);
  }
  void Fill(const RequestWork& request, int times) {
    for (int i = 0; i < times; ++i) ahead_.Add(request);
  }
  // Whoever leaves is replaced: the work of a cell takes `ns_a_cell` of wall time.
  void Serve(const RequestWork& request, int requests, int cells, int64_t ns_a_cell,
             double share = 1) {
    for (int i = 0; i < requests; ++i) {
      now_ += cells * ns_a_cell;
      ahead_.Add(request);
      ahead_.Remove(request, share, now_);
    }
  }

  const std::shared_ptr<const Model> model_ = TinyModel();
  WorkAhead ahead_;
  int64_t now_ = kMs;
};

TEST_F(WorkAheadTest, AChainIsItsCellsInFullBatchesAndItsStepsOneAfterTheOther) {
  const RequestWork request = Chain(10);
  EXPECT_EQ(request.work_ns, 10 * kMs);
  EXPECT_EQ(request.path_ns, 40 * kMs);
  EXPECT_EQ(request.turns, 1);
  EXPECT_EQ(Chain(130).turns, 3);
}

TEST_F(WorkAheadTest, NothingIsKnownAgainstARequestUntilBatchesAreFull) {
  const RequestWork request = Chain(10);
  EXPECT_EQ(ahead_.EstimateNs(request), 0);
  Fill(request, 3);
  EXPECT_EQ(ahead_.EstimateNs(request), 0);
  Fill(request, 1);
  EXPECT_GT(ahead_.EstimateNs(request), 0);
}

TEST_F(WorkAheadTest, TheWaitIsTheWorkInFlightWithoutHalfOfWhatRunsAndThenComesItsOwnPath) {
  const RequestWork request = Chain(10);
  Fill(request, 40);  // 400 ms of work; of the four that run half is done
  EXPECT_EQ(ahead_.EstimateNs(request), (400 - 20 + 40) * kMs);
  EXPECT_EQ(ahead_.EstimateNs(request, 100 * kMs), (400 + 100 - 20 + 40) * kMs);
  EXPECT_EQ(ahead_.EstimateNs(ahead_.Least()), (400 - 20) * kMs);
  for (int i = 0; i < 37; ++i) ahead_.Remove(request, 1, now_);
  EXPECT_EQ(ahead_.EstimateNs(request), 0);
}

TEST_F(WorkAheadTest, AShortRequestWaitsForTurnsAndNotForTheWholeOfLongOnes) {
  Fill(Chain(6400), 8);  // 100 turns each
  // Two batches of turns of 64 tasks of 4 ms, and its one step.
  EXPECT_EQ(ahead_.EstimateNs(Chain(1)), (2 * 64 * 4 + 4) * kMs);
}

TEST_F(WorkAheadTest, ThePaceIsLearnedFromWhatLeavesWhileBatchesAreFull) {
  const RequestWork request = Chain(10);
  Fill(request, 8);
  EXPECT_EQ(ahead_.pace(), 1);
  Serve(request, 100, 10, 3 * kMs);
  EXPECT_NEAR(ahead_.pace(), 3, 0.1);
  EXPECT_NEAR(static_cast<double>(ahead_.EstimateNs(request)), 3.0 * (80 - 20 + 40) * kMs,
              10 * kMs);
  Serve(request, 400, 10, kMs / 2);
  EXPECT_NEAR(ahead_.pace(), 0.5, 0.1);
}

TEST_F(WorkAheadTest, WhatIsServedWhileBatchesAreNotFullTeachesNothing) {
  const RequestWork request = Chain(10);
  Fill(request, 1);
  Serve(request, 100, 10, 30 * kMs);
  EXPECT_EQ(ahead_.pace(), 1);
}

// Else the first to come after a quiet night would be told that the server needs a night for a few of them.
TEST_F(WorkAheadTest, ATimeInWhichNothingWasThereTeachesNothing) {
  const RequestWork request = Chain(10);
  Fill(request, 8);
  Serve(request, 100, 10, kMs);
  for (int i = 0; i < 8; ++i) ahead_.Remove(request, 1, now_);
  now_ += 36'000'000 * kMs;
  Fill(request, 8);
  Serve(request, 100, 10, kMs);
  EXPECT_NEAR(ahead_.pace(), 1, 0.1);
}

// Three leave together after 100 ms, then one after 100 ms: 40 ms of work in 200. The pace of each alone would be 3.3 or 10.
TEST_F(WorkAheadTest, ThePaceIsOfSomeBatchesAndNotOfThoseThatHappenToLeaveTogether) {
  const RequestWork request = Chain(10);
  Fill(request, 80);
  for (int i = 0; i < 40; ++i) {
    Serve(request, 2, 10, 10 * kMs);
    Serve(request, 2, 10, 0);
  }
  EXPECT_NEAR(ahead_.pace(), 5, 0.3);
}

// Else many that expire would make the server look fast, and more of them would be admitted.
TEST_F(WorkAheadTest, OfThoseThatLeaveEarlyOnlyWhatWasComputedCounts) {
  const RequestWork request = Chain(10);
  Fill(request, 8);
  Serve(request, 400, 10, kMs / 2, /*share=*/0.5);
  EXPECT_NEAR(ahead_.pace(), 1, 0.05);
}

class TwoDevicesTest : public WorkAheadTest {
 protected:
  TwoDevicesTest() : WorkAheadTest(2) {}
};

TEST_F(TwoDevicesTest, TwoDevicesRunTwiceAsManyAtOnceAndAChainNoFaster) {
  const RequestWork request = Chain(10);
  Fill(request, 7);
  EXPECT_EQ(ahead_.EstimateNs(request), 0);
  Fill(request, 33);
  EXPECT_EQ(ahead_.EstimateNs(request), ((400 - 40) / 2 + 40) * kMs);
}

TEST(WorkAheadOfAModelTest, WhatIsLessUrgentIsNotBeforeARequest) {
  const std::shared_ptr<Model> model = TinyModel();
  model->priority_levels = 3;
  model->default_priority_level = 2;
  WorkAhead ahead(*model, FourAtOnce(), 1);
  const CellGraph graph = Chain(*model, 10);
  for (int i = 0; i < 40; ++i) ahead.Add(ahead.Of(graph, 0));
  EXPECT_EQ(ahead.EstimateNs(ahead.Of(graph, 1)), 0);
  EXPECT_EQ(ahead.EstimateNs(ahead.Of(graph, 2)), 420 * kMs);
  EXPECT_EQ(ahead.EstimateNs(ahead.Of(graph, 3)), 420 * kMs);
  for (int i = 0; i < 40; ++i) ahead.Add(ahead.Of(graph, 3));
  EXPECT_EQ(ahead.EstimateNs(ahead.Of(graph, 0)), 420 * kMs);
}

TEST(WorkAheadOfAModelTest, NodesThatDoNotFollowEachOtherAreOneStepOfThePath) {
  const std::shared_ptr<const Model> model = testing::OneCellModel(testing::LinearCell(2, 3));
  const RequestWork request =
      WorkAhead(*model, FourAtOnce(), 1).Of(Chain(*model, /*length=*/10), 0);
  EXPECT_EQ(request.work_ns, 10 * kMs);
  EXPECT_EQ(request.path_ns, 4 * kMs);
}

TEST(WorkAheadOfAModelTest, WhatMayFollowIsWorkToo) {
  const std::shared_ptr<const Model> model = TinyModel();
  CellGraph graph;
  graph.Add(CellTypeId(0), 10, {});
  graph.Grow({.pieces = 1, .nodes = 90, .rows = {}, .progress = nullptr});
  ASSERT_TRUE(graph.Seal(*model, 1).ok());
  const RequestWork request = WorkAhead(*model, FourAtOnce(), 1).Of(graph, 0);
  EXPECT_EQ(request.work_ns, 100 * kMs);
  EXPECT_EQ(request.path_ns, 400 * kMs);
  EXPECT_EQ(request.turns, 2);
}

TEST(WorkAheadOfAModelTest, TheFirstMemoryThatWasMeasuredSaysHowLongTasksTake) {
  const std::shared_ptr<const Model> model = TinyModel();
  std::vector<CellTypeCalibration> measured = FourAtOnce();
  measured.push_back(
      {.memory = 1, .type = CellTypeId(0), .max_batch = 4, .points = {{1, kMs}, {4, kMs}}});
  EXPECT_EQ(WorkAhead(*model, measured, 1).Of(Chain(*model, 10), 0).work_ns, 10 * kMs);
}

TEST(WorkAheadOfAModelTest, AModelWhoseTasksWereNotMeasuredRefusesNobody) {
  const std::shared_ptr<const Model> model = TinyModel();
  WorkAhead ahead(*model, {}, 1);
  const RequestWork request = ahead.Of(Chain(*model, 10), 0);
  for (int i = 0; i < 1000; ++i) ahead.Add(request);
  EXPECT_EQ(ahead.EstimateNs(request), 0);
}

}  // namespace
}  // namespace cellbatch
