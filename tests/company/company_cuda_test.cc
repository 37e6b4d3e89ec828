// 10^5 random requests on GPUs, emulated or this machine's (gpu_trials.h): whoever shares their batches, requests are answered
// with the bits that they were answered with alone.
#include <cstdio>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/company/crowd.h"
#include "tests/company/gpu_trials.h"

namespace cellbatch::company {
namespace {

using testing::IsEmpty;

class CompanyCudaTest : public testing::TestWithParam<Trial> {
 protected:
  void TearDown() override { EXPECT_THAT(Findings(), IsEmpty()); }
};

TEST_P(CompanyCudaTest, AnswersDoNotDependOnTheirCompany) {
  const Trial& trial = GetParam();
  CrowdOptions options;
  options.seed = trial.seed;
  options.plans = trial.plans;
  DeviceSet gpus = GpusOf(trial);
  std::vector<const cuda::CudaDevice*> devices;
  for (const auto& gpu : gpus.devices) {
    devices.push_back(static_cast<const cuda::CudaDevice*>(gpu.get()));
  }
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
  int64_t launches = 0;
  uint64_t tasks = 0;
  for (const cuda::CudaDevice* device : devices) launches += device->launches();
  for (const DeviceStats& device : crowd.scheduler().stats().Devices()) tasks += device.tasks;
  std::printf("%llu tasks in %lld launches\n", static_cast<unsigned long long>(tasks),
              static_cast<long long>(launches));
  // How many is the machine's: one that prepares a task as slowly as a GPU is emulated seldom has two of them ready.
  EXPECT_LT(launches, static_cast<int64_t>(tasks)) << "none went together";
}

INSTANTIATE_TEST_SUITE_P(OnGpus, CompanyCudaTest, testing::ValuesIn(Trials()),
                         [](const testing::TestParamInfo<Trial>& info) { return info.param.name; });

}  // namespace
}  // namespace cellbatch::company
