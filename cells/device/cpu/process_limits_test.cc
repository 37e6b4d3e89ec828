#include "cells/device/cpu/process_limits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <new>
#include <string>

namespace cellbatch {
namespace {

constexpr int64_t kMiB = 1 << 20;

// A machine of 8 GiB made of files: proc/ and sys/ in a folder of the test's own.
class FakeMachine {
 public:
  FakeMachine() : root_(testing::TempDir() + "/machine") {
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo", "MemTotal: 9000000 kB\nMemAvailable:    8388608 kB\nBuffers: 1 kB\n");
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // Version 2 alone, `base` mounted, this process in `group`.
  void UseV2(const std::string& group, const std::string& base = "/") {
    Write("/proc/self/cgroup", "0::" + group + "\n");
    Write("/proc/self/mountinfo",
          "24 1 0:22 / /proc rw - proc proc rw\n"
          "30 24 0:26 " +
              base + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  // Version 1, one hierarchy for memory and one for cpu and cpuacct.
  void UseV1(const std::string& group, const std::string& base = "/") {
    Write("/proc/self/cgroup",
          "5:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n1:name=systemd:/x\n");
    Write("/proc/self/mountinfo", "32 31 0:29 " + base +
                                      " /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                                      "35 31 0:32 " +
                                      base +
                                      " /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  }
  int64_t Memory() const { return AvailableMemoryBytes(root_).value_or(-1); }
  std::optional<double> Cpus() const { return CpuQuota(root_); }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

TEST(ProcessLimitsTest, WithoutGroupsTheMachineDecides) {
  FakeMachine machine;
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
  EXPECT_EQ(machine.Cpus(), std::nullopt);
}

TEST(ProcessLimitsTest, WhatTheProcessMayMapItselfCounts) {
  FakeMachine machine;
  const auto limits = [&](const std::string& data, const std::string& space) {
    machine.Write("/proc/self/limits",
                  "Limit                     Soft Limit           Hard Limit           Units     \n"
                  "Max data size             " +
                      data + "            unlimited            bytes     \n" +
                      "Max address space         " + space +
                      "            unlimited            bytes     \n");
  };
  machine.Write("/proc/self/status",
                "VmPeak:\t 9999999 kB\nVmSize:\t  102400 kB\nVmData:\t 51200 kB\n");
  limits("unlimited", "unlimited");
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
  limits("unlimited", "1073741824");
  EXPECT_EQ(machine.Memory(), 924 * kMiB);
  limits("536870912", "1073741824");
  EXPECT_EQ(machine.Memory(), 462 * kMiB);
  limits("unlimited", "1048576");
  EXPECT_EQ(machine.Memory(), 0) << "more is taken than may be from now on";
  limits("unlimited", "17179869184");
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
}

// What `bytes` more are answered on that machine; empty: they may be had.
std::string Refusal(const FakeMachine& machine, int64_t bytes) {
  try {
    RequireMemory(bytes, machine.root());
  } catch (const std::bad_alloc& refused) {
    return refused.what();
  }
  return "";
}

TEST(ProcessLimitsTest, WhatCannotBeHadIsRefusedBeforeItIsTaken) {
  FakeMachine machine;
  EXPECT_EQ(Refusal(machine, 8192 * kMiB), "");
  EXPECT_EQ(Refusal(machine, 8192 * kMiB + 1),
            "8589934593 bytes more are needed, 8589934592 are left");
  machine.Write("/proc/meminfo", "MemAvailable:    8388608 kB\nSwapFree: 1024 kB\n");
  EXPECT_EQ(Refusal(machine, 8193 * kMiB), "") << "slow, and had";
  EXPECT_NE(Refusal(machine, 8193 * kMiB + 1), "");
  EXPECT_EQ(machine.Memory(), 8192 * kMiB) << "which nobody plans with";
  machine.UseV2("/pod");
  machine.Write("/sys/fs/cgroup/pod/memory.max", std::to_string(1000 * kMiB) + "\n");
  machine.Write("/sys/fs/cgroup/pod/memory.current", std::to_string(600 * kMiB) + "\n");
  machine.Write("/sys/fs/cgroup/pod/memory.stat", "active_file " + std::to_string(50 * kMiB) +
                                                      "\ninactive_file " +
                                                      std::to_string(250 * kMiB) + "\n");
  EXPECT_EQ(machine.Memory(), 650 * kMiB);
  EXPECT_EQ(Refusal(machine, 700 * kMiB), "") << "files that are read again and again give way";
  EXPECT_NE(Refusal(machine, 700 * kMiB + 1), "");
  machine.Write("/sys/fs/cgroup/pod/memory.current", std::to_string(2000 * kMiB) + "\n");
  EXPECT_EQ(Refusal(machine, 17 * kMiB), "17825792 bytes more are needed, 0 are left");
  EXPECT_EQ(Refusal(machine, 1), "1 bytes more are needed, 0 are left") << "until it is granted";
  FakeMachine roomy;
  EXPECT_EQ(Refusal(roomy, kMiB), "");
  roomy.Write("/proc/meminfo", "MemAvailable: 0 kB\n");
  for (int i = 0; i < 16; ++i) EXPECT_EQ(Refusal(roomy, kMiB), "") << "nobody is asked";
  EXPECT_EQ(Refusal(roomy, 1), "1 bytes more are needed, 0 are left");
}

TEST(ProcessLimitsTest, WhereNothingIsKnownNothingIsRefused) {
  EXPECT_NO_THROW(RequireMemory(int64_t{1} << 60, "/nowhere"));
}

TEST(ProcessLimitsTest, WhereNothingIsSaidNothingIsKnown) {
  EXPECT_EQ(AvailableMemoryBytes("/nowhere"), std::nullopt);
  EXPECT_EQ(CpuQuota("/nowhere"), std::nullopt);
}

TEST(ProcessLimitsTest, AGroupLeavesItsLimitLessWhatItUsesAndCannotGiveBack) {
  FakeMachine machine;
  machine.UseV2("/pod");
  machine.Write("/sys/fs/cgroup/pod/memory.max", std::to_string(1000 * kMiB) + "\n");
  EXPECT_EQ(machine.Memory(), 1000 * kMiB);  // what it uses is not known
  machine.Write("/sys/fs/cgroup/pod/memory.current", std::to_string(600 * kMiB) + "\n");
  EXPECT_EQ(machine.Memory(), 400 * kMiB);
  machine.Write("/sys/fs/cgroup/pod/memory.stat",
                "anon 1\nfile 2\ninactive_file " + std::to_string(250 * kMiB) + "\nx 9\n");
  EXPECT_EQ(machine.Memory(), 650 * kMiB);
}

TEST(ProcessLimitsTest, AFullGroupLeavesNothingRatherThanNothingKnown) {
  FakeMachine machine;
  machine.UseV2("/pod");
  machine.Write("/sys/fs/cgroup/pod/memory.max", "1000\n");
  machine.Write("/sys/fs/cgroup/pod/memory.current", "1004\n");
  EXPECT_EQ(AvailableMemoryBytes(machine.root()), 0);
}

TEST(ProcessLimitsTest, TheTightestOfNestedGroupsCounts) {
  FakeMachine machine;
  machine.UseV2("/slice/pod/box");
  machine.Write("/sys/fs/cgroup/slice/memory.max", std::to_string(3000 * kMiB));
  machine.Write("/sys/fs/cgroup/slice/memory.current", std::to_string(2800 * kMiB));
  machine.Write("/sys/fs/cgroup/slice/pod/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/slice/pod/box/memory.max", std::to_string(500 * kMiB));
  machine.Write("/sys/fs/cgroup/slice/pod/box/memory.current", std::to_string(10 * kMiB));
  machine.Write("/sys/fs/cgroup/slice/cpu.max", "400000 100000\n");
  machine.Write("/sys/fs/cgroup/slice/pod/cpu.max", "150000 100000\n");
  machine.Write("/sys/fs/cgroup/slice/pod/box/cpu.max", "max 100000\n");
  EXPECT_EQ(machine.Memory(), 200 * kMiB);
  EXPECT_EQ(machine.Cpus(), 1.5);
}

TEST(ProcessLimitsTest, MaxLimitsNothing) {
  FakeMachine machine;
  machine.UseV2("/pod");
  machine.Write("/sys/fs/cgroup/pod/memory.max", "max\n");
  machine.Write("/sys/fs/cgroup/pod/memory.current", "123\n");
  machine.Write("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
  EXPECT_EQ(machine.Cpus(), std::nullopt);
}

TEST(ProcessLimitsTest, AMachineWithLessThanTheGroupAllowsDecides) {
  FakeMachine machine;
  machine.UseV2("/pod");
  machine.Write("/sys/fs/cgroup/pod/memory.max", std::to_string(100'000 * kMiB));
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
}

TEST(ProcessLimitsTest, GarbageLimitsNothing) {
  for (const char* text : {"", "lots", "-5", "12 34 56", "99999999999999999999", "1e9", "7MiB"}) {
    FakeMachine machine;
    machine.UseV2("/pod");
    machine.Write("/sys/fs/cgroup/pod/memory.max", text);
    machine.Write("/sys/fs/cgroup/pod/cpu.max", text);
    EXPECT_EQ(machine.Memory(), 8192 * kMiB) << text;
    EXPECT_EQ(machine.Cpus(), std::nullopt) << text;
  }
  FakeMachine machine;
  machine.Write("/proc/self/cgroup", "no colons\n:\n::\n0\n");
  machine.Write("/proc/self/mountinfo", "- - -\n\n1 2 3 / /x rw - cgroup2\n");
  EXPECT_EQ(machine.Memory(), 8192 * kMiB);
  for (const char* text : {"0 100000", "100000 0", "100000", "x 100000"}) {
    machine.UseV2("/pod");
    machine.Write("/sys/fs/cgroup/pod/cpu.max", text);
    EXPECT_EQ(machine.Cpus(), std::nullopt) << text;
  }
}

// In a container without a namespace of its own for groups, the host's path is told and only its end is mounted.
TEST(ProcessLimitsTest, AContainerFindsItsGroupWhereItIsMounted) {
  for (const char* base : {"/docker/4f2a", "/"}) {
    FakeMachine machine;
    machine.UseV2(base[1] == '\0' ? "/" : "/docker/4f2a", base);
    machine.Write("/sys/fs/cgroup/memory.max", std::to_string(70 * kMiB));
    EXPECT_EQ(machine.Memory(), 70 * kMiB);
  }
  FakeMachine machine;
  machine.UseV2("/docker/4f2a/inner", "/docker/4f2a");
  machine.Write("/sys/fs/cgroup/memory.max", std::to_string(70 * kMiB));
  machine.Write("/sys/fs/cgroup/inner/memory.max", std::to_string(60 * kMiB));
  EXPECT_EQ(machine.Memory(), 60 * kMiB);
}

TEST(ProcessLimitsTest, AGroupOutsideOfWhatIsMountedIsNotLookedFor) {
  FakeMachine machine;
  machine.UseV2("/../other", "/");
  machine.Write("/sys/fs/cgroup/memory.max", std::to_string(70 * kMiB));
  machine.Write("/sys/fs/other/memory.max", "1\n");
  EXPECT_EQ(machine.Memory(), 70 * kMiB);
  machine.UseV2("/dockerish/x", "/docker");
  EXPECT_EQ(machine.Memory(), 70 * kMiB);
}

TEST(ProcessLimitsTest, Version1SaysTheSameInOtherFiles) {
  FakeMachine machine;
  machine.UseV1("/kube/pod");
  machine.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  machine.Write("/sys/fs/cgroup/memory/kube/pod/memory.limit_in_bytes", std::to_string(900 * kMiB));
  machine.Write("/sys/fs/cgroup/memory/kube/pod/memory.usage_in_bytes", std::to_string(500 * kMiB));
  machine.Write("/sys/fs/cgroup/memory/kube/pod/memory.stat",
                "inactive_file 5\ntotal_inactive_file " + std::to_string(100 * kMiB) +
                    "\nactive_file 7\ntotal_active_file " + std::to_string(30 * kMiB) + "\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  machine.Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  machine.Write("/sys/fs/cgroup/cpu/kube/cpu.cfs_quota_us", "250000\n");
  machine.Write("/sys/fs/cgroup/cpu/kube/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(machine.Memory(), 500 * kMiB);
  EXPECT_EQ(Refusal(machine, 530 * kMiB), "");
  EXPECT_NE(Refusal(machine, 530 * kMiB + 1), "");
  EXPECT_EQ(machine.Cpus(), 2.5);
}

TEST(ProcessLimitsTest, AQuotaIsRoundedDownToWholeCores) {
  EXPECT_EQ(CoresWithin(64, std::nullopt), 64);
  EXPECT_EQ(CoresWithin(64, 8.0), 8);
  EXPECT_EQ(CoresWithin(64, 2.9), 2);
  EXPECT_EQ(CoresWithin(64, 0.25), 1);
  EXPECT_EQ(CoresWithin(2, 8.0), 2);
  EXPECT_EQ(CoresWithin(2, 1e18), 2);
}

}  // namespace
}  // namespace cellbatch
