// Claims about a scheduler with its threads that loses its devices. A ring that is slept through shows as
// a test that does not end.
#include "scheduler/scheduler_test_world.h"

namespace cellbatch {
namespace {

using namespace scheduler_testing;

WorldOptions Mortal(int devices) {
  WorldOptions options;
  options.devices = devices;
  options.threads = true;
  options.device = [](SimDeviceOptions& device) { device.fails_after_tasks = 40; };
  return options;
}

class DeviceLossTest : public ::testing::TestWithParam<int> {};

// More than once: the manager must have gone to sleep with nobody left to wake it but the request.
TEST_P(DeviceLossTest, WhatArrivesAfterTheLastDeviceDiedIsAnswered) {
  World world(Mortal(GetParam()));
  const auto model = MakeModel(ModelId(1));
  world.Add(model);
  uint64_t tag = 0;
  while (world.scheduler().any_device_left()) {
    world.Submit(world.Tree(model, 9), tag++);
    world.WaitForOne();
  }
  for (int i = 0; i < 300; ++i) {
    world.Submit(world.Sentence(model, 3), tag);
    const auto done = world.WaitForOne();
    EXPECT_EQ(done->tag, tag++);
    EXPECT_EQ(done->status.code(), absl::StatusCode::kInternal) << done->status;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceLossTest, ::testing::Values(1, 2, 3));

}  // namespace
}  // namespace cellbatch
