// On emulated GPUs alone: one that is lost takes no answer with it but those that it was computing.
#include <chrono>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/company/crowd.h"
#include "tests/company/gpu_trials.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::company {
namespace {

using testing::IsEmpty;

class LostGpuTest : public testing::TestWithParam<Trial> {
 protected:
  void TearDown() override { EXPECT_THAT(Findings(), IsEmpty()); }
};

TEST_P(LostGpuTest, AGpuThatIsLostTakesOnlyWhatItWasComputing) {
  const Trial& trial = GetParam();
  CrowdOptions options;
  options.seed = trial.seed;
  options.plans = trial.plans;
  DeviceSet gpus = GpusOf(trial);
  emulator::LoadedEmulator().restore();  // nothing is late
  Crowd crowd(std::move(gpus), options);
  crowd.AnswerAlone();
  std::thread fate([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    emulator::LoadedEmulator().lose(1);
  });
  const Tally tally = crowd.AnswerTogether(trial.requests);
  fate.join();
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.unasked, 0);
  EXPECT_EQ(tally.ok + tally.cancelled + tally.lost, trial.requests);
  EXPECT_LE(tally.lost, options.outstanding) << "those that were on it";
  EXPECT_FALSE(crowd.scheduler().DeviceHealth().ok());
  EXPECT_EQ(crowd.AnswerTogether(100).lost, 0) << "the others go on";
}

// Somebody must be left.
INSTANTIATE_TEST_SUITE_P(OnEmulated, LostGpuTest,
                         testing::Values(Trial{.name = "Gpus2Checked",
                                               .ordinals = {0, 1},
                                               .seed = 4,
                                               .requests = 1000,
                                               .plans = 40,
                                               .narrow = true,
                                               .checked = true},
                                         Trial{.name = "Gpus4",
                                               .ordinals = {0, 1, 2, 3},
                                               .seed = 5,
                                               .requests = 2000,
                                               .plans = 40,
                                               .narrow = true}),
                         [](const testing::TestParamInfo<Trial>& info) { return info.param.name; });

}  // namespace
}  // namespace cellbatch::company
