#include "cells/device/parse_devices.h"

#include <gtest/gtest.h>

#include <string>

#include "cells/device/cpu/cpu_topology.h"
#include "cells/device/cpu/process_limits.h"

namespace cellbatch {
namespace {

std::string Error(std::string_view text) {
  return std::string(ParseDevices(text).status().message());
}

TEST(ParseDevicesTest, AutoIsEveryCpuThereIsTimeForAndNothingIsPinned) {
  for (const char* text : {"auto", "cpu"}) {
    const absl::StatusOr<DeviceChoice> choice = ParseDevices(text);
    ASSERT_TRUE(choice.ok());
    EXPECT_FALSE(choice->pinned);
    size_t cpus = 0;
    for (const std::vector<int>& set : choice->cpu_sets) cpus += set.size();
    EXPECT_EQ(cpus, static_cast<size_t>(UsableCores()));
  }
}

TEST(ParseDevicesTest, NoMoreCpusAreChosenThanThereIsTimeFor) {
  const std::vector<int> cpus = {60001, 60002, 60003};  // of no node that is told: all of one
  EXPECT_EQ(ChooseCpus(cpus, 2, NumaNodeOf).cpu_sets,
            (std::vector<std::vector<int>>{{60001, 60002}}));
  EXPECT_EQ(ChooseCpus(cpus, 3, NumaNodeOf).cpu_sets, (std::vector<std::vector<int>>{cpus}));
  EXPECT_EQ(ChooseCpus(cpus, 8, NumaNodeOf).cpu_sets, (std::vector<std::vector<int>>{cpus}));
}

TEST(ParseDevicesTest, EachKindNamedIsADevice) {
  const absl::StatusOr<DeviceChoice> choice = ParseDevices("cpu:0,cpu:2-3", {0, 1, 2, 3});
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->cpu_sets, (std::vector<std::vector<int>>{{0}, {2, 3}}));
  EXPECT_TRUE(choice->pinned);
}

TEST(ParseDevicesTest, DevicesThatShareACpuAreRefusedAndBothNamed) {
  const std::string cpu = "cpu:" + std::to_string(AllowedCpus()[0]);
  EXPECT_EQ(Error(cpu + "," + cpu), "devices: \"" + cpu + "\" and \"" + cpu + "\" both name CPU " +
                                        std::to_string(AllowedCpus()[0]) +
                                        "; each device has CPUs of its own");
  const char* shared = "cpu:0-1,cuda:0,cpu:3,cpu:1-2";
  const absl::Status refused = ParseDevices(shared, {0, 1, 2, 3}).status();
  EXPECT_EQ(refused,
            absl::InvalidArgumentError("devices: \"cpu:0-1\" and \"cpu:1-2\" both name CPU 1; each "
                                       "device has CPUs of its own"));
  EXPECT_EQ(KindsNamed(shared).status(), refused);  // --check says what the start would
}

TEST(ParseDevicesTest, ACpuThatIsNotThereIsNamed) {
  EXPECT_EQ(Error("cpu:60000"),
            "devices: \"cpu:60000\": CPU 60000 is not there; this process has " +
                CpuListText(AllowedCpus()));
  const std::string cpu = std::to_string(AllowedCpus()[0]);
  EXPECT_EQ(Error("cpu:" + cpu + "," + cpu),
            "devices: \"cpu:" + cpu + "," + cpu + "\": CPU " + cpu + " is named twice");
}

TEST(ParseDevicesTest, WhatIsNoDeviceIsRefused) {
  for (const char* text : {"", "gpu", "cpu:", "cpu:1-0", "cpu:a", "cpu:0-", "cpu:0,,1", "cpu:-1"}) {
    EXPECT_EQ(ParseDevices(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  for (const char* text : {"cuda:", "cuda:x", "cuda:-1", "cuda:64", "cuda:0,1", "cuda:0-1", "cuda0",
                           "cuda,cuda:0", "auto,cuda:0"}) {
    EXPECT_EQ(ParseDevices(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(
      Error("cuda:0,1"),
      "devices: \"cuda:0,1\" is no GPU; write cuda:0, one for each (cuda:0,cuda:1), or cuda for "
      "all");
}

TEST(ParseDevicesTest, GpusAreNamedByTheirNumbersAndOneMayHaveTwoQueues) {
  const absl::StatusOr<DeviceChoice> two = ParseDevices("cuda:0,cuda:1");
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(two->cuda, (std::vector<int>{0, 1}));
  EXPECT_TRUE(two->cpu_sets.empty());
  EXPECT_TRUE(two->any_cuda());
  EXPECT_EQ(ParseDevices("cuda:3,cuda:3")->cuda, (std::vector<int>{3, 3}));
  const absl::StatusOr<DeviceChoice> all = ParseDevices("cuda");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_TRUE(all->every_cuda);
  EXPECT_TRUE(all->cuda.empty());
}

TEST(ParseDevicesTest, BothKindsMayBeNamed) {
  const int cpu = AllowedCpus()[0];
  const auto choice = ParseDevices("cpu:" + std::to_string(cpu) + ",cuda:1");
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->cpu_sets, (std::vector<std::vector<int>>{{cpu}}));
  EXPECT_EQ(choice->cuda, (std::vector<int>{1}));
}

TEST(ParseDevicesTest, TheKindsThatAreNamedNeedNotBeThere) {
  EXPECT_STREQ(Name(*KindsNamed("auto")), "CPU");
  EXPECT_STREQ(Name(*KindsNamed("cpu")), "CPU");
  EXPECT_STREQ(Name(*KindsNamed("cpu:1000,1001,cpu:1002")), "CPU");
  EXPECT_STREQ(Name(*KindsNamed("cuda")), "GPU");
  EXPECT_STREQ(Name(*KindsNamed("cuda:3,cuda:4")), "GPU");
  EXPECT_STREQ(Name(*KindsNamed("cpu:1000,cuda:0")), "CPU and GPU");
  for (const char* none : {"tpu:0", "cpu:", "cuda:0,1", ""}) {
    EXPECT_EQ(KindsNamed(none).status(), ParseDevices(none).status()) << none;
    EXPECT_FALSE(KindsNamed(none).ok()) << none;
  }
}

TEST(ParseDevicesTest, NobodyComputesOnAGpuUnasked) {
  EXPECT_FALSE(ParseDevices("auto")->any_cuda());
  EXPECT_FALSE(ParseDevices("cpu")->any_cuda());
}

TEST(CpuTopologyTest, ListsReadBackAsWritten) {
  EXPECT_EQ(ParseCpuList("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(CpuListText({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(CpuListText({5, 3, 4}), "5,3-4");
  EXPECT_EQ(NumaNodeOf(1 << 15), 0);
}

}  // namespace
}  // namespace cellbatch
