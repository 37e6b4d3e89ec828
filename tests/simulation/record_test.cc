// Claims about recorded schedules: whatever the simulation draws, the same manager given what it saw does the same again.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "scheduler/clock.h"
#include "scheduler/record/memory_recorder.h"
#include "scheduler/record/schedule_replay.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kRequestsOfASeed = 60;
#else
constexpr int64_t kRequestsOfASeed = 500;
#endif

class RecordTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RecordTest, ARecordedScheduleIsTakenAgainToTheLastRow) {
  MemoryRecorder recorder;
  SimulationOptions options = WithUnfolding(RandomOptions(GetParam(), kRequestsOfASeed));
  options.recorder = &recorder;
  SCOPED_TRACE(Describe(options));
  ASSERT_EQ(Simulate(options).violation_count, 0);
  const SteadyClock clock;
  const auto report = ReplaySchedule(recorder.run(), {}, clock);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->difference, "");
  EXPECT_EQ(report->ends_early, "");
  EXPECT_EQ(report->recorded_hash, report->replayed_hash);
  EXPECT_GT(report->tasks, 0);
  EXPECT_EQ(report->answers.size(), recorder.run().requests.size());
}
INSTANTIATE_TEST_SUITE_P(Seeds, RecordTest, ::testing::Range(uint64_t{1}, uint64_t{61}));

SimulationOptions Crowded(PolicyKind policy) {
  SimulationOptions options;
  options.seed = 3;
  options.requests = kRequestsOfASeed;
  options.policy = policy;
  return options;
}

TEST(RecordedPolicyTest, AnotherPolicyTakesAnotherScheduleAndTheReplaySaysWhere) {
  MemoryRecorder recorder;
  SimulationOptions options = Crowded(PolicyKind::kCellular);
  options.recorder = &recorder;
  ASSERT_EQ(Simulate(options).violation_count, 0);
  const SteadyClock clock;
  for (const PolicyKind kind : {PolicyKind::kAgenda, PolicyKind::kLbGreedy, PolicyKind::kRandom}) {
    ReplayOptions other;
    other.policy.emplace().kind = kind;
    const auto report = ReplaySchedule(recorder.run(), other, clock);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_FALSE(report->same());
    EXPECT_NE(report->recorded_hash, report->replayed_hash) << Name(kind);
    EXPECT_NE(report->difference, "");
  }
}

TEST(RecordedPolicyTest, ATapeThatRanFullSaysHowMuchItLostAndIsTakenAgainUpToThere) {
  MemoryRecorder recorder(1 << 10);
  SimulationOptions options = Crowded(PolicyKind::kCellular);
  options.recorder = &recorder;
  ASSERT_EQ(Simulate(options).violation_count, 0);
  const RecordedRun& run = recorder.run();
  EXPECT_GT(run.lost_steps, 0u);
  const SteadyClock clock;
  const auto report = ReplaySchedule(run, {}, clock);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->difference, "");
  EXPECT_EQ(report->recorded_hash, report->replayed_hash);
  EXPECT_NE(report->ends_early.find(std::to_string(run.lost_steps)), std::string::npos);
  EXPECT_EQ(run.requests.size(), static_cast<size_t>(options.requests));
}

}  // namespace
}  // namespace cellbatch::sim
