// What the driver finds while it executes, through the table that devices use: each rule, and what looks like its breach and is
// none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/driver_bench.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::emulator {
namespace {

using cuda::DevicePtr;
using cuda::Graph;
using cuda::GraphExec;
using cuda::kSuccess;
using cuda::Stream;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr char kSource[] = R"(
extern "C" __global__ void Copy(int* to, const int* from) { to[threadIdx.x] = from[threadIdx.x]; }
extern "C" __global__ void SetTwice(volatile int* to) { *to = 1; *to = 2; }
extern "C" __global__ void Set(int* to, int value) { *to = value; }
// Thread 1 reads what thread 0 writes.
extern "C" __global__ void Behind(int* to) {
  if (threadIdx.x == 0) to[0] = 1;
  if (threadIdx.x == 1) to[1] = to[0];
}
extern "C" __global__ void Count(unsigned* to) { atomicAdd(to, 1u); }
)";

const std::string& Cubin() {
  static const std::string cubin = CubinOf(kSource);
  return cubin;
}

class OneGpu : public GpuInUse {
 public:
  explicit OneGpu(int number = 0) : GpuInUse(Cubin(), number) {}
};

class ChecksTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("CELLBATCH_EMULATED_GPUS", "2", 1);
    ASSERT_EQ(Cu().init(0), kSuccess);
  }
  void TearDown() override {
    Control().restore();
    Control().set_checks(true);
    EXPECT_THAT(EmulatorFindings(), IsEmpty());
    Control().clear_findings();
  }
  static const EmulatorControl& Control() { return LoadedEmulator(); }
  // What was found so far, once.
  static std::vector<std::string> Found() {
    std::vector<std::string> found = EmulatorFindings();
    Control().clear_findings();
    return found;
  }
  static void Done(Stream stream) { EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess); }
  static void Fill(DevicePtr at, size_t bytes, Stream stream) {
    EXPECT_EQ(Cu().fill(at, 0, bytes, stream), kSuccess);
  }
};

// Memory ----------------------------------------------------------------------------------------

TEST_F(ChecksTest, AKernelThatReadsWhatNobodyWroteIsFound) {
  const OneGpu gpu(1);
  const Stream stream = gpu.NewStream();
  OnGpu<int> from(4), to(4);
  Fill(from.at(), 12, stream);
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 4, to.get(), from.get()), kSuccess);
  Done(stream);
  EXPECT_THAT(Found(),
              ElementsAre(AllOf(StartsWith("GPU 1: Copy, block (0, 0), thread 3: not written"),
                                HasSubstr("reads 4 bytes"))));
}

TEST_F(ChecksTest, CopiesFillsWritesOfStreamsAndKernelsCountAsWriting) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> from(4), to(4);
  const std::vector<int> two = {1, 2};
  EXPECT_EQ(Cu().copy_to_device(from.at(), two.data(), 8, stream), kSuccess);
  Fill(from.at() + 8, 4, stream);
  EXPECT_EQ(Cu().stream_write(stream, from.at() + 12, 4, 0), kSuccess);
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 4, to.get(), from.get()), kSuccess);
  EXPECT_THAT(to.Read(stream), ElementsAre(1, 2, 0, 4));
}

TEST_F(ChecksTest, ACopyToTheHostOfWhatNobodyWroteIsFoundOnceAndPinnedMemoryIsTheHosts) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> memory(4);
  Pinned<int> pinned(4);
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 3, memory.get(), pinned.get()), kSuccess);
  Done(stream);
  EXPECT_THAT(Found(), IsEmpty());
  memory.Read(stream);
  memory.Read(stream);
  EXPECT_THAT(Found(), ElementsAre(AllOf(HasSubstr("a copy: not written: reads 16 bytes"))));
}

TEST_F(ChecksTest, WhatWasFreedIsForgottenThoughTheNextLiesInItsPlace) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  for (int i = 0; i < 20; ++i) {
    OnGpu<int> memory(4);
    memory.Read(stream);
    EXPECT_EQ(Found().size(), 1u);
    Fill(memory.at(), 16, stream);
  }
  int* freed = nullptr;
  {
    OnGpu<int> memory(4);
    freed = memory.get();
  }
  OnGpu<int> other(1'000'000);  // elsewhere
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 0 + 1, other.get(), freed), kSuccess);
  Done(stream);
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("Copy, block (0, 0), thread 0: out of bounds")));
}

TEST_F(ChecksTest, MemoryOfAnotherGpuIsOutOfBoundsAndPinnedMemoryIsEverybodys) {
  const OneGpu first(0);
  const Stream of_first = first.NewStream();
  OnGpu<int> memory(4);
  Fill(memory.at(), 16, of_first);
  Done(of_first);
  Pinned<int> pinned(4);
  {
    const OneGpu second(1);
    const Stream stream = second.NewStream();
    EXPECT_EQ(second.Launch("Copy", stream, 1, 4, pinned.get(), pinned.get()), kSuccess);
    Done(stream);
    EXPECT_THAT(Found(), IsEmpty());
    EXPECT_EQ(second.Launch("Copy", stream, 1, 1, pinned.get(), memory.get()), kSuccess);
    Done(stream);
    EXPECT_THAT(Found(), ElementsAre(AllOf(StartsWith("GPU 1: Copy"), HasSubstr("out of bounds"))));
  }
  first.MakeCurrent();
}

TEST_F(ChecksTest, RacesWithinALaunchAreFound) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> memory(2);
  OnGpu<unsigned> count(1);
  Fill(memory.at(), 8, stream);
  EXPECT_EQ(gpu.Launch("Behind", stream, 1, 2, memory.get()), kSuccess);
  Done(stream);
  EXPECT_THAT(Found(), ElementsAre(AllOf(HasSubstr("Behind, "), HasSubstr(": race: "))));
  Fill(count.at(), 4, stream);
  EXPECT_EQ(gpu.Launch("Count", stream, 2, 32, count.get()), kSuccess);
  EXPECT_THAT(count.Read(stream), ElementsAre(64u));
}

// As trash rows are written.
TEST_F(ChecksTest, TwoThreadsMayWriteWhatNobodyReads) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> memory(1), other(1);
  const auto set_twice = [&] {
    EXPECT_EQ(gpu.Launch("Set", stream, 1, 2, memory.get(), 1), kSuccess);
    Done(stream);
    EXPECT_THAT(EmulatorFindings(), IsEmpty());
  };
  set_twice();
  memory.Read(stream);
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("a copy: race: reads 4 bytes")));
  set_twice();
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 1, other.get(), memory.get()), kSuccess);
  Done(stream);
  EXPECT_THAT(Found(), ElementsAre(AllOf(HasSubstr("Copy, "), HasSubstr(": race: reads"))));
  set_twice();
  EXPECT_EQ(gpu.Launch("Set", stream, 1, 1, memory.get(), 1), kSuccess);
  memory.Read(stream);
  set_twice();
  Fill(memory.at(), 4, stream);
  memory.Read(stream);
}

// Streams ---------------------------------------------------------------------------------------

// Two streams of a GPU that stands still while they are filled.
class StreamsTest : public ChecksTest {
 protected:
  StreamsTest() : first(gpu.NewStream()), second(gpu.NewStream()) {
    Fill(memory.at(), 16, first);
    Fill(other.at(), 16, first);
    Done(first);
    Control().hang(0, true);
  }
  void Run() {
    Control().hang(0, false);
    Done(first);
    Done(second);
  }
  void Set(Stream stream, int* to) { EXPECT_EQ(gpu.Launch("Set", stream, 1, 1, to, 1), kSuccess); }
  void Copy(Stream stream, int* to, const int* from) {
    EXPECT_EQ(gpu.Launch("Copy", stream, 1, 1, to, from), kSuccess);
  }

  const OneGpu gpu;
  const Stream first, second;
  OnGpu<int> memory{4}, other{4};
};

TEST_F(StreamsTest, TwoKernelsThatWriteTheSameAreFoundByWhoReadsIt) {
  EXPECT_EQ(gpu.Launch("SetTwice", first, 1, 1, memory.get()), kSuccess);
  EXPECT_EQ(gpu.Launch("SetTwice", second, 1, 1, memory.get()), kSuccess);
  Run();
  EXPECT_THAT(Found(), IsEmpty());
  Copy(second, other.get(), memory.get());
  Run();
  EXPECT_THAT(Found(), ElementsAre(AllOf(StartsWith("GPU 0: Copy, block (0, 0), thread 0: race: "
                                                    "reads 4 bytes"),
                                         HasSubstr("which two wrote: nothing orders them"))));
}

TEST_F(StreamsTest, AKernelThatReadsWhatAnotherStreamWritesIsFound) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Control().set_seed(seed);
    Control().hang(0, true);
    Copy(first, other.get(), memory.get());
    Set(second, memory.get());
    Run();
    EXPECT_THAT(Found(), ElementsAre(HasSubstr("race of streams"))) << seed;
  }
}

TEST_F(StreamsTest, ReadingTheSameOrWritingApartIsNoRaceNorAreAtomics) {
  Copy(first, other.get(), memory.get());
  Copy(second, other.get() + 1, memory.get());
  auto* const count = reinterpret_cast<unsigned*>(other.get() + 2);
  EXPECT_EQ(gpu.Launch("Count", first, 1, 1, count), kSuccess);
  EXPECT_EQ(gpu.Launch("Count", second, 1, 1, count), kSuccess);
  Run();
}

TEST_F(StreamsTest, OneStreamIsInOrder) {
  for (int i = 0; i < 5; ++i) {
    Set(first, memory.get());
    Copy(first, other.get(), memory.get());
    Set(second, other.get() + 1);
  }
  Run();
}

TEST_F(StreamsTest, AHostThatWaitedHasOrderedThem) {
  Set(first, memory.get());
  Run();
  Set(second, memory.get());
  Set(second, memory.get() + 1);
  while (Cu().stream_query(second) != kSuccess) std::this_thread::yield();
  Set(first, memory.get() + 1);
  Run();
}

// The host that saw it may have enqueued the second for that.
TEST_F(StreamsTest, ASignalThatTheHostSawHasOrderedThem) {
  Control().delay_writes(0, 2, 500);
  Pinned<uint32_t> signal(1);
  __atomic_store_n(signal.get(), 0, __ATOMIC_RELEASE);
  Control().hang(0, false);
  for (uint32_t round = 1; round <= 50; ++round) {
    const Stream stream = round % 2 == 0 ? first : second;
    Copy(stream, other.get(), memory.get());
    Set(stream, memory.get());
    EXPECT_EQ(gpu.Launch("Set", stream, 1, 1, signal.get(), static_cast<int>(round)), kSuccess);
    while (__atomic_load_n(signal.get(), __ATOMIC_ACQUIRE) != round) std::this_thread::yield();
  }
  Run();
}

TEST_F(StreamsTest, CopiesFillsAndWritesRaceAsKernelsDo) {
  std::vector<int> from(4);
  Pinned<int> out(4);
  const auto fill = [&](Stream stream) { Fill(memory.at(), 16, stream); };
  const auto bring = [&](Stream stream) {
    EXPECT_EQ(Cu().copy_to_device(memory.at(), from.data(), 16, stream), kSuccess);
  };
  const auto fetch = [&](Stream stream) {
    EXPECT_EQ(Cu().copy_to_host(out.get(), memory.at(), 16, stream), kSuccess);
  };
  const auto write = [&](Stream stream) {
    EXPECT_EQ(Cu().stream_write(stream, memory.at(), 1, 0), kSuccess);
  };
  const auto set = [&](Stream stream) { Set(stream, memory.get()); };
  const auto races = [&](const auto& one, const auto& another) {
    Control().hang(0, true);
    one(first);
    another(second);
    Run();
    return Found();
  };
  EXPECT_THAT(races(fill, bring), ElementsAre(HasSubstr("race of streams")));
  EXPECT_THAT(races(fetch, fill), ElementsAre(HasSubstr("race of streams")));
  EXPECT_THAT(races(set, fetch), ElementsAre(HasSubstr("race of streams")));
  EXPECT_THAT(races(write, set), ElementsAre(HasSubstr("race of streams")));
  EXPECT_THAT(races(set, bring), ElementsAre(HasSubstr("race of streams")));
  const auto fetch_elsewhere = [&](Stream stream) {
    EXPECT_EQ(Cu().copy_to_host(out.get() + 2, memory.at() + 8, 8, stream), kSuccess);
  };
  EXPECT_THAT(races(set, fetch_elsewhere), IsEmpty());
}

// Sources of copies -----------------------------------------------------------------------------

TEST_F(StreamsTest, AHostThatChangesTheSourceOfACopyUnderWayIsFound) {
  Pinned<int> pinned(4);
  for (size_t i = 0; i < 4; ++i) pinned[i] = 0;
  EXPECT_EQ(Cu().copy_to_device(memory.at(), pinned.get(), 8, first), kSuccess);
  pinned[1] = 7;
  Run();
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("GPU 0: the host changed the source of a copy that "
                                             "was under way: 8 bytes")));
}

TEST_F(StreamsTest, AHostThatChangesWhatLiesBesideOrWaitsIsNot) {
  Pinned<int> pinned(4);
  for (size_t i = 0; i < 4; ++i) pinned[i] = 0;
  EXPECT_EQ(Cu().copy_to_device(memory.at(), pinned.get(), 8, first), kSuccess);
  pinned[2] = 7;
  Run();
  pinned[1] = 7;
  EXPECT_THAT(memory.Read(first), ElementsAre(0, 0, 0, 0));
}

TEST_F(StreamsTest, AGpuMayWriteWhatALaterCopyBrings) {
  Pinned<int> by_kernel(4), by_copy(4);
  for (size_t i = 0; i < 4; ++i) by_kernel[i] = by_copy[i] = 7;
  Set(first, by_kernel.get());
  EXPECT_EQ(Cu().copy_to_device(memory.at(), by_kernel.get(), 16, first), kSuccess);
  EXPECT_EQ(Cu().copy_to_host(by_copy.get(), memory.at(), 16, first), kSuccess);
  by_copy[3] = 9;
  EXPECT_EQ(Cu().copy_to_device(other.at(), by_copy.get(), 16, first), kSuccess);
  Run();
  EXPECT_THAT(other.Read(first), ElementsAre(1, 7, 7, 7));
}

TEST_F(StreamsTest, AGraphsCopyIsLookedAtFromItsLaunchOn) {
  Pinned<int> pinned(4);
  for (size_t i = 0; i < 4; ++i) pinned[i] = 0;
  Graph graph = nullptr;
  GraphExec exec = nullptr;
  EXPECT_EQ(Cu().capture_begin(first, cuda::kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(Cu().copy_to_device(memory.at(), pinned.get(), 16, first), kSuccess);
  EXPECT_EQ(Cu().capture_end(first, &graph), kSuccess);
  EXPECT_EQ(Cu().graph_instantiate(&exec, graph, 0), kSuccess);
  pinned[1] = 5;
  EXPECT_EQ(Cu().graph_launch(exec, first), kSuccess);
  Run();
  EXPECT_THAT(memory.Read(first), ElementsAre(0, 5, 0, 0));
  EXPECT_THAT(Found(), IsEmpty());
  Control().hang(0, true);
  EXPECT_EQ(Cu().graph_launch(exec, first), kSuccess);
  pinned[1] = 6;
  Run();
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("the host changed the source")));
  EXPECT_EQ(Cu().graph_exec_destroy(exec), kSuccess);
  EXPECT_EQ(Cu().graph_destroy(graph), kSuccess);
}

// The switch ------------------------------------------------------------------------------------

TEST_F(ChecksTest, WhatRunsUncheckedIsNotFoundAndCountsAsRightAfterwards) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> from(4), to(4);
  Control().set_checks(false);
  EXPECT_EQ(gpu.Launch("Copy", stream, 1, 4, to.get(), from.get()), kSuccess);
  Done(stream);
  Control().set_checks(true);
  to.Read(stream);
  EXPECT_THAT(Found(), IsEmpty());
  OnGpu<int> later(4);
  later.Read(stream);
  EXPECT_THAT(Found(), ElementsAre(HasSubstr("not written")));
}

TEST_F(ChecksTest, TwoGpusAreCheckedAtOnce) {
  Pinned<int>* shared = nullptr;
  const OneGpu owner(0);
  Pinned<int> pinned(64);
  shared = &pinned;
  const auto run = [&](int number) {
    const OneGpu gpu(number);
    const Stream stream = gpu.NewStream();
    for (int i = 0; i < 50; ++i) {
      OnGpu<int> to(32);
      EXPECT_EQ(gpu.Launch("Copy", stream, 1, 32, to.get(), shared->get()), kSuccess);
      EXPECT_EQ(gpu.Launch("Copy", stream, 1, 16, shared->get() + 32 + 16 * number, to.get()),
                kSuccess);
      to.Read(stream);
    }
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  second.join();
}

TEST(ChecksEnvironmentTest, ChecksAreTurnedOffByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto calls = [] {
    setenv("CELLBATCH_EMULATOR_CHECKS", "0", 1);
    Cu().init(0);
    const OneGpu gpu;
    OnGpu<int>(4).Read(gpu.NewStream());
    std::_Exit(EmulatorFindings().empty() ? 7 : 1);
  };
  EXPECT_EXIT(calls(), ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace cellbatch::emulator
