// 10^5 random requests on the CPU (10^4 under sanitizers): whoever shares their batches, they are answered with the bits that
// they were answered with alone.
#include <memory>
#include <utility>

#include "cells/check.h"
#include "cells/device/cpu/cpu_device.h"
#include "gtest/gtest.h"
#include "tests/company/crowd.h"

namespace cellbatch::company {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kRequests = 10'000;
#else
constexpr int64_t kRequests = 100'000;
#endif

TEST(CompanyTest, AnswersOnTwoCpuDevicesDoNotDependOnTheirCompany) {
  auto devices = CpuDevices(std::vector<std::vector<int>>{{0}, {1}}, CpuOptions());
  Check(devices.ok(), devices.status().ToString());
  const CrowdOptions options;
  Crowd crowd(*std::move(devices), options);
  EXPECT_LT(crowd.AnswerAlone(), 1e-5);
  EXPECT_EQ(crowd.words_as_interpreted(), options.plans);
  const Tally tally = crowd.AnswerTogether(kRequests);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.unasked, 0);
  EXPECT_EQ(tally.lost, 0);
  EXPECT_EQ(tally.ok + tally.cancelled, kRequests);
  EXPECT_GT(tally.cancelled, kRequests / 100);
  EXPECT_GT(tally.pieces, kRequests / 10);
}

}  // namespace
}  // namespace cellbatch::company
