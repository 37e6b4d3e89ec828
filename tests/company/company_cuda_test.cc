// 10^5 random requests on one, two and four emulated GPUs, whose operations are late at random and whose streams, threads and
// blocks run in an order that a seed draws: whoever shares their batches, requests are answered with the bits that they were
// answered with alone. And a GPU that is lost takes no answer with it but those that it was computing.
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cells/check.h"
#include "cells/device/cuda/cuda_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/company/crowd.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::company {
namespace {

using testing::IsEmpty;

// Of them all.
constexpr int64_t kRequests = 100'000;

const emulator::EmulatorControl& Gpus() { return emulator::LoadedEmulator(); }

DeviceSet EmulatedGpus(int count) {
  const std::shared_ptr<const cuda::CudaApi> api = emulator::EmulatedApi(4);
  Gpus().restore();
  std::vector<int> ordinals(static_cast<size_t>(count));
  std::iota(ordinals.begin(), ordinals.end(), 0);
  cuda::CudaOptions options;
  options.host_block_bytes = int64_t{32} << 20;
  // Soon around: slots of the ring, and the signal's counter.
  options.memory.queue.slots = 4;
  options.memory.queue.first_signal = 0xffffff00u;
  auto devices = cuda::CudaDevices(api, ordinals, options);
  Check(devices.ok(), devices.status().ToString());
  return *std::move(devices);
}

struct Trial {
  int gpus;
  uint64_t seed;
  int64_t requests;
  int plans;
  bool checked;  // every access of every kernel is looked at: three times as long
};

class CompanyCudaTest : public testing::TestWithParam<Trial> {
 protected:
  void TearDown() override { EXPECT_THAT(emulator::EmulatorFindings(), IsEmpty()); }
};

TEST_P(CompanyCudaTest, AnswersDoNotDependOnTheirCompany) {
  const Trial& trial = GetParam();
  CrowdOptions options;
  options.seed = trial.seed;
  options.plans = trial.plans;
  DeviceSet gpus = EmulatedGpus(trial.gpus);
  Gpus().set_seed(trial.seed);
  Gpus().set_checks(trial.checked);
  for (int gpu = 0; gpu < trial.gpus; ++gpu) Gpus().delay_writes(gpu, 20, 100);
  Crowd crowd(std::move(gpus), options);
  EXPECT_LT(crowd.AnswerAlone(), 1e-5);
  EXPECT_EQ(crowd.words_as_interpreted(), options.plans);
  const Tally tally = crowd.AnswerTogether(trial.requests);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.unasked, 0);
  EXPECT_EQ(tally.lost, 0);
  EXPECT_EQ(tally.ok + tally.cancelled, trial.requests);
  EXPECT_GT(tally.cancelled, trial.requests / 100);
  EXPECT_GT(tally.pieces, trial.requests / 10);
}

class LostGpuTest : public CompanyCudaTest {};

TEST_P(LostGpuTest, AGpuThatIsLostTakesOnlyWhatItWasComputing) {
  const Trial& trial = GetParam();
  CrowdOptions options;
  options.seed = trial.seed;
  options.plans = trial.plans;
  Gpus().set_checks(trial.checked);
  Crowd crowd(EmulatedGpus(trial.gpus), options);
  crowd.AnswerAlone();
  std::thread fate([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Gpus().lose(1);
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

std::string Name(const testing::TestParamInfo<Trial>& info) {
  return "Gpus" + std::to_string(info.param.gpus) + (info.param.checked ? "Checked" : "");
}
INSTANTIATE_TEST_SUITE_P(OnEmulated, CompanyCudaTest,
                         testing::Values(Trial{1, 1, kRequests / 5, 200, false},
                                         Trial{2, 2, kRequests * 2 / 5, 200, false},
                                         Trial{4, 3, kRequests * 2 / 5, 200, false},
                                         Trial{2, 6, 1000, 40, true}),
                         Name);
// Somebody must be left.
INSTANTIATE_TEST_SUITE_P(OnEmulated, LostGpuTest,
                         testing::Values(Trial{2, 4, 1000, 40, true}, Trial{4, 5, 2000, 40, false}),
                         Name);

}  // namespace
}  // namespace cellbatch::company
