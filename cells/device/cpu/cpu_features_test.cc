#include "cells/device/cpu/cpu_features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace cellbatch {
namespace {

// The operating system's opinion: the words of the first "flags" line; none where it is no x86's.
std::set<std::string> SystemFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line);
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

TEST(CpuFeaturesTest, AgreesWithWhatTheSystemSays) {
  const std::set<std::string> flags = SystemFlags();
  const auto has = [&flags](const char* flag) { return flags.count(flag) == 1; };
  const CpuFeatures cpu = DetectCpuFeatures();
  EXPECT_EQ(cpu.avx2_fma, has("avx2") && has("fma"));
  EXPECT_EQ(cpu.avx512, has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq") &&
                            has("avx2") && has("fma"));
  EXPECT_EQ(cpu.avx512_bf16, cpu.avx512 && has("avx512_bf16"));
}

TEST(CpuFeaturesTest, WiderFeaturesImplyNarrowerOnes) {
  const CpuFeatures cpu = DetectCpuFeatures();
  EXPECT_LE(cpu.avx512, cpu.avx2_fma);
  EXPECT_LE(cpu.avx512_bf16 || cpu.amx_bf16, cpu.avx512);
  EXPECT_LE(cpu.l1d_bytes, cpu.l2_bytes);
}

TEST(CpuFeaturesTest, TextNamesTheCpuAndItsExtensions) {
  CpuFeatures cpu;
  cpu.brand = "Example";
  cpu.avx2_fma = true;
  cpu.l1d_bytes = 32 << 10;
  cpu.l2_bytes = 1 << 20;
  cpu.l3_bytes = 32 << 20;
  EXPECT_EQ(cpu.ToString(), "Example: avx2, L1 32 KiB, L2 1024 KiB, L3 32 MiB");
}

}  // namespace
}  // namespace cellbatch
