// The emulated driver and compiler through the table that devices use: what CUDA promises of each call, what it does not (any
// order between streams), what it refuses, and the faults that tests ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cells/device/cuda/cuda_api.h"
#include "tests/cuda_emulator/driver/driver_bench.h"
#include "tests/cuda_emulator/driver/emulated_gpus.h"

namespace cellbatch::emulator {
namespace {

using cuda::Context;
using cuda::DevicePtr;
using cuda::Function;
using cuda::Graph;
using cuda::GraphExec;
using cuda::kNotReady;
using cuda::kOutOfMemory;
using cuda::kSuccess;
using cuda::Module;
using cuda::Program;
using cuda::Result;
using cuda::Stream;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Result kInvalid = 1, kUninitialized = 3, kNoGpu = 100, kNoImage = 200, kNoContext = 201,
                 kNoHandle = 400, kNoState = 401, kNoSymbol = 500, kLaunchFailure = 719,
                 kRefusedInCapture = 900, kVoidCapture = 901, kOtherThread = 908;
constexpr size_t kGpuBytes = size_t{16} << 20;

constexpr char kSource[] = R"(
extern __shared__ float4 cellbatch_shared[];

struct Span { int* at; int n; };
extern "C" __global__ void Add(Span to, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < to.n) to.at[i] += by;
}
// Who came when: `list` begins with how many came.
extern "C" __global__ void Note(int* list, int who) {
  if (threadIdx.x == 0) { list[1 + list[0]] = who; list[0] += 1; }
}
extern "C" __global__ void LastOfShared(int* to, int bytes) {
  int* const mine = reinterpret_cast<int*>(cellbatch_shared);
  mine[bytes / 4 - 1] = 7;
  *to = mine[bytes / 4 - 1];
}
extern "C" __global__ void Divergent(int* to) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  *to = 1;
}
extern "C" __global__ void NotItself(int* to, int by) { by += 1; *to = by; }
extern "C" __global__ void BehindItsEnd(int* to, int n) { to[n] = 1; }
)";

const std::string& Cubin() {
  static const std::string cubin = CubinOf(kSource);
  return cubin;
}

class OneGpu : public GpuInUse {
 public:
  explicit OneGpu(int number = 0) : GpuInUse(Cubin(), number) {}
};

struct IntSpan {
  int* at;
  int n;
};

class DriverTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("CELLBATCH_EMULATED_GPUS", "2", 1);
    setenv("CELLBATCH_EMULATED_GPU_BYTES", std::to_string(kGpuBytes).c_str(), 1);
    ASSERT_EQ(Cu().init(0), kSuccess);
  }
  void TearDown() override {
    Control().restore();
    Control().set_checks(true);
    EXPECT_THAT(EmulatorFindings(), expected_findings_);
    Control().clear_findings();
    for (const int gpu : {-1, 0, 1}) EXPECT_EQ(Control().live_bytes(gpu), 0) << gpu;
    Cu().context_set(nullptr);
  }
  static const EmulatorControl& Control() { return LoadedEmulator(); }
  template <typename M>
  void ExpectFindings(M matcher) {
    expected_findings_ = matcher;
  }

 private:
  ::testing::Matcher<std::vector<std::string>> expected_findings_ = IsEmpty();
};

TEST_F(DriverTest, GpusAreWhatTheEnvironmentSays) {
  int count = 0, version = 0, value = 0;
  cuda::DeviceNumber device = -1;
  std::array<char, 64> name = {};
  EXPECT_EQ(Cu().driver_version(&version), kSuccess);
  EXPECT_EQ(version, 13'000);
  EXPECT_EQ(Cu().device_count(&count), kSuccess);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(Cu().device_get(&device, 1), kSuccess);
  EXPECT_EQ(Cu().device_get(&device, 2), 101);
  EXPECT_EQ(Cu().device_name(name.data(), 64, 1), kSuccess);
  EXPECT_STREQ(name.data(), "Emulated GPU");
  EXPECT_EQ(Cu().device_attribute(&value, cuda::kComputeMajor, 1), kSuccess);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(Cu().device_attribute(&value, cuda::kMostSharedOptin, 1), kSuccess);
  EXPECT_EQ(value, 232'448);
}

TEST_F(DriverTest, AKernelIsCompiledLoadedAndRunOnWhatWasCopied) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> numbers(100);
  std::vector<int> from(100, 5);
  EXPECT_EQ(Cu().copy_to_device(numbers.at(), from.data(), 400, stream), kSuccess);
  EXPECT_EQ(gpu.Launch("Add", stream, 4, 32, IntSpan{numbers.get(), 99}, 3), kSuccess);
  std::vector<int> expected(100, 8);
  expected.back() = 5;
  EXPECT_EQ(numbers.Read(stream), expected);
  EXPECT_EQ(Cu().fill(numbers.at() + 4, 0, 8, stream), kSuccess);
  expected[1] = expected[2] = 0;
  EXPECT_EQ(numbers.Read(stream), expected);
}

TEST_F(DriverTest, WhatNobodyWroteIsNaN) {
  const OneGpu gpu;
  OnGpu<float> memory(16);
  Control().set_checks(false);  // which tell of such reads: checks_test.cc
  for (const float f : memory.Read(gpu.NewStream())) EXPECT_TRUE(std::isnan(f));
  Pinned<float> pinned(16);
  EXPECT_TRUE(std::isnan(pinned[15]));
}

TEST_F(DriverTest, OneStreamKeepsItsOrderAndEachLaunchItsOwnArguments) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    Control().set_seed(seed);
    const OneGpu gpu;
    const Stream stream = gpu.NewStream(), other = gpu.NewStream();
    OnGpu<int> list(101);
    OnGpu<int> elsewhere(1);
    EXPECT_EQ(Cu().fill(list.at(), 0, 4, stream), kSuccess);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(gpu.Launch("Note", stream, 1, 32, list.get(), i), kSuccess);
      EXPECT_EQ(Cu().fill(elsewhere.at(), 0, 4, other), kSuccess);
    }
    const std::vector<int> noted = list.Read(stream);
    EXPECT_EQ(noted[0], 100);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(noted[static_cast<size_t>(i) + 1], i);
  }
}

TEST_F(DriverTest, LaunchesReturnAtOnceAndAQueryTellsWhetherTheyAreDone) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> list(2);
  EXPECT_EQ(Cu().stream_query(stream), kSuccess);
  Control().hang(0, true);
  EXPECT_EQ(Cu().fill(list.at(), 0, 4, stream), kSuccess);
  EXPECT_EQ(gpu.Launch("Note", stream, 1, 1, list.get(), 9), kSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(Cu().stream_query(stream), kNotReady);
  const long long before = Control().launches(0);
  Control().hang(0, false);
  EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kSuccess);
  EXPECT_EQ(Control().launches(0), before + 1);
  EXPECT_THAT(list.Read(stream), ElementsAre(1, 9));
}

TEST_F(DriverTest, PinnedMemoryIsReadWhenTheCopyRunsAndPageableMemoryAtTheCall) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> pinned_to(1), pageable_to(1);
  Pinned<int> pinned(1);
  int pageable = 1;
  pinned[0] = 1;
  Control().hang(0, true);
  EXPECT_EQ(Cu().copy_to_device(pinned_to.at(), pinned.get(), 4, stream), kSuccess);
  EXPECT_EQ(Cu().copy_to_device(pageable_to.at(), &pageable, 4, stream), kSuccess);
  pinned[0] = pageable = 2;
  Control().hang(0, false);
  EXPECT_THAT(pinned_to.Read(stream), ElementsAre(2));
  EXPECT_THAT(pageable_to.Read(stream), ElementsAre(1));
  ExpectFindings(ElementsAre(HasSubstr("the host changed the source of a copy")));
}

TEST_F(DriverTest, ASignalShowsAfterAllThatStandsBeforeItInItsStream) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> numbers(64);
  Pinned<int> out(64);
  Pinned<uint32_t> signal(1);
  Control().delay_writes(0, 3, 300);
  for (uint32_t round = 1; round <= 50; ++round) {
    __atomic_store_n(signal.get(), 0, __ATOMIC_RELEASE);
    std::vector<int> from(64, static_cast<int>(round));
    EXPECT_EQ(Cu().copy_to_device(numbers.at(), from.data(), 256, stream), kSuccess);
    EXPECT_EQ(gpu.Launch("Add", stream, 2, 32, IntSpan{numbers.get(), 64}, 1), kSuccess);
    EXPECT_EQ(Cu().copy_to_host(out.get(), numbers.at(), 256, stream), kSuccess);
    const auto at = reinterpret_cast<DevicePtr>(signal.get());
    EXPECT_EQ(Cu().stream_write(stream, at, round, 0), kSuccess);
    while (__atomic_load_n(signal.get(), __ATOMIC_ACQUIRE) != round) std::this_thread::yield();
    EXPECT_THAT(std::vector<int>(out.get(), out.get() + 64), Each(static_cast<int>(round) + 1));
  }
}

TEST_F(DriverTest, AGraphRunsWhatWasCapturedOnMemoryAsItIsThenAndKeepsItsOwnArguments) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream(), other = gpu.NewStream();
  OnGpu<int> numbers(8), own(1);
  Pinned<uint32_t> signal(1);
  signal[0] = 0;
  EXPECT_EQ(Cu().fill(numbers.at(), 0, 32, stream), kSuccess);
  EXPECT_EQ(Cu().capture_begin(stream, cuda::kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(gpu.Launch("Add", stream, 1, 32, IntSpan{numbers.get(), 8}, 1), kSuccess);
  EXPECT_EQ(gpu.Launch("NotItself", stream, 1, 1, own.get(), 4), kSuccess);
  const auto at = reinterpret_cast<DevicePtr>(signal.get());
  EXPECT_EQ(Cu().stream_write(stream, at, 77, 0), kSuccess);
  Graph graph = nullptr;
  EXPECT_EQ(Cu().capture_end(stream, &graph), kSuccess);
  EXPECT_THAT(numbers.Read(stream), Each(0));  // nothing ran
  EXPECT_EQ(signal[0], 0u);
  GraphExec exec = nullptr;
  EXPECT_EQ(Cu().graph_instantiate(&exec, graph, 0), kSuccess);
  EXPECT_EQ(Cu().graph_destroy(graph), kSuccess);
  EXPECT_EQ(Cu().graph_destroy(graph), kNoHandle);
  EXPECT_EQ(Cu().graph_launch(exec, stream), kSuccess);
  EXPECT_THAT(numbers.Read(stream), Each(1));
  EXPECT_EQ(Cu().fill(numbers.at(), 1, 32, other), kSuccess);
  EXPECT_EQ(Cu().graph_launch(exec, other), kSuccess);
  EXPECT_EQ(Cu().graph_launch(exec, other), kSuccess);
  EXPECT_EQ(Cu().graph_exec_destroy(exec), kSuccess);  // what is queued runs still
  EXPECT_THAT(numbers.Read(other), Each(0x01010101 + 2));
  EXPECT_THAT(own.Read(other), ElementsAre(5));
  EXPECT_EQ(signal[0], 77u);
  EXPECT_EQ(Cu().graph_launch(exec, other), kNoHandle);
}

TEST_F(DriverTest, ACaptureIsVoidedByAQueryAndEndsOnItsOwnThread) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  Graph graph = nullptr;
  EXPECT_EQ(Cu().capture_end(stream, &graph), kNoState);
  EXPECT_EQ(Cu().capture_begin(stream, cuda::kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(Cu().capture_begin(stream, cuda::kCaptureThreadLocal), kNoState);
  std::thread([&] {
    gpu.MakeCurrent();
    EXPECT_EQ(Cu().capture_end(stream, &graph), kOtherThread);
  }).join();
  EXPECT_EQ(Cu().stream_query(stream), kRefusedInCapture);
  EXPECT_EQ(Cu().stream_synchronize(stream), kRefusedInCapture);
  EXPECT_EQ(Cu().capture_end(stream, &graph), kVoidCapture);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(Cu().stream_query(stream), kSuccess);
}

TEST_F(DriverTest, AnAllocationOnAThreadThatCapturesIsAFindingAndOnAnotherIsNot) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  Graph graph = nullptr;
  EXPECT_EQ(Cu().capture_begin(stream, cuda::kCaptureThreadLocal), kSuccess);
  std::thread([&] {
    gpu.MakeCurrent();
    OnGpu<int>(1);
  }).join();
  EXPECT_THAT(EmulatorFindings(), IsEmpty());
  DevicePtr memory = 0;
  EXPECT_EQ(Cu().alloc(&memory, 4), kSuccess);
  EXPECT_EQ(Cu().capture_end(stream, &graph), kSuccess);
  EXPECT_EQ(Cu().graph_destroy(graph), kSuccess);
  EXPECT_EQ(Cu().free(memory), kSuccess);
  EXPECT_EQ(Cu().capture_begin(stream, cuda::kCaptureThreadLocal), kSuccess);
  EXPECT_EQ(Cu().stream_destroy(stream), kSuccess);
  OnGpu<int>(1);
  ExpectFindings(ElementsAre("GPU 0: cuMemAlloc on a thread that captures"));
}

TEST_F(DriverTest, AThreadWithoutAContextIsRefused) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  const Function function = gpu.Kernel("Divergent");
  size_t free = 0, total = 0;
  std::thread([&] {
    EXPECT_EQ(Cu().memory_info(&free, &total), kNoContext);
    EXPECT_EQ(Cu().stream_query(stream), kNoContext);
    EXPECT_EQ(LaunchGrid(function, 1, 1, 1, 0, stream, nullptr), kNoContext);
  }).join();
  EXPECT_EQ(Cu().memory_info(&free, &total), kSuccess);
  EXPECT_EQ(Cu().context_set(reinterpret_cast<Context>(&free)), kNoContext);
}

TEST_F(DriverTest, AContextEndsWithItsLastReleaseAndTakesItsHandlesAlong) {
  Context context = nullptr;
  EXPECT_EQ(Cu().context_release(1), kNoContext);
  EXPECT_EQ(Cu().context_retain(&context, 1), kSuccess);
  EXPECT_EQ(Cu().context_retain(&context, 1), kSuccess);
  EXPECT_EQ(Cu().context_set(context), kSuccess);
  Stream stream = nullptr;
  EXPECT_EQ(Cu().stream_create(&stream, 0), kSuccess);
  DevicePtr left = 0;
  EXPECT_EQ(Cu().alloc(&left, 40), kSuccess);
  EXPECT_EQ(Cu().context_release(1), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kSuccess);
  EXPECT_EQ(Cu().context_release(1), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kNoContext);
  EXPECT_EQ(Cu().context_retain(&context, 1), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kNoContext);
  EXPECT_EQ(Cu().context_set(context), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kNoHandle);
  EXPECT_EQ(Cu().context_release(1), kSuccess);
  ExpectFindings(
      ElementsAre("GPU 1: its context goes, and 40 bytes of device memory were not freed"));
}

TEST_F(DriverTest, MadeUpHandlesAndThoseOfOtherGpusAreRefused) {
  const OneGpu gpu(0);
  const Stream stream = gpu.NewStream();
  const Function function = gpu.Kernel("Divergent");
  int x = 0, value = 0;
  EXPECT_EQ(Cu().stream_query(reinterpret_cast<Stream>(&x)), kNoHandle);
  EXPECT_EQ(Cu().stream_query(nullptr), kNoHandle);
  EXPECT_EQ(Cu().function_attribute(&value, cuda::kNumRegisters, nullptr), kNoHandle);
  EXPECT_EQ(Cu().module_unload(reinterpret_cast<Module>(&x)), kNoHandle);
  EXPECT_EQ(Cu().graph_exec_destroy(reinterpret_cast<GraphExec>(&x)), kNoHandle);
  EXPECT_EQ(LaunchGrid(reinterpret_cast<Function>(&x), 1, 1, 1, 0, stream, nullptr), kNoHandle);
  Function missing = nullptr;
  EXPECT_EQ(Cu().module_function(&missing, gpu.module, "Missing"), kNoSymbol);
  Module module = nullptr;
  EXPECT_EQ(Cu().module_load(&module, "no cubin"), kNoImage);
  EXPECT_EQ(Cu().free(reinterpret_cast<DevicePtr>(&x)), kInvalid);
  EXPECT_EQ(Cu().host_free(&x), kInvalid);
  {
    const OneGpu other(1);
    EXPECT_EQ(Cu().stream_query(stream), kNoHandle);
    EXPECT_EQ(Cu().function_attribute(&value, cuda::kNumRegisters, function), kNoHandle);
  }
  gpu.MakeCurrent();
  EXPECT_EQ(Cu().stream_destroy(stream), kSuccess);
  EXPECT_EQ(Cu().stream_query(stream), kNoHandle);
  EXPECT_EQ(Cu().module_unload(gpu.module), kSuccess);
  EXPECT_EQ(Cu().function_attribute(&value, cuda::kNumRegisters, function), kNoHandle);
}

TEST_F(DriverTest, MemoryEndsWhereTheGpusMemoryEnds) {
  const OneGpu gpu;
  size_t free = 0, total = 0;
  DevicePtr all = 0, more = 0;
  EXPECT_EQ(Cu().alloc(&all, kGpuBytes + 1), kOutOfMemory);
  EXPECT_EQ(Cu().alloc(&all, 0), kInvalid);
  EXPECT_EQ(Cu().alloc(&all, kGpuBytes - 100), kSuccess);
  EXPECT_EQ(all % 256, 0u);
  EXPECT_EQ(Cu().memory_info(&free, &total), kSuccess);
  EXPECT_EQ(free, 100u);
  EXPECT_EQ(total, kGpuBytes);
  EXPECT_EQ(Control().live_bytes(0), static_cast<long long>(kGpuBytes) - 100);
  EXPECT_EQ(Control().live_bytes(1), 0);
  EXPECT_EQ(Cu().alloc(&more, 101), kOutOfMemory);
  EXPECT_EQ(Cu().free(all), kSuccess);
  EXPECT_EQ(Cu().free(all), kInvalid);
}

TEST_F(DriverTest, FreeingWaitsForWhatWasQueuedBeforeIt) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  Pinned<int> out(1);
  Control().delay_writes(0, 1, 10'000);
  {
    OnGpu<int> memory(1);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Cu().fill(memory.at(), 3, 4, stream), kSuccess);
    EXPECT_EQ(Cu().copy_to_host(out.get(), memory.at(), 4, stream), kSuccess);
  }
  EXPECT_EQ(Cu().stream_query(stream), kSuccess);
  EXPECT_EQ(out[0], 0x03030303);
}

TEST_F(DriverTest, WhatReachesBehindAllocationsIsRefusedAndAFinding) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> memory(4);
  Pinned<int> pinned(4);
  std::array<int, 8> local = {};
  EXPECT_EQ(Cu().copy_to_device(memory.at(), local.data(), 20, stream), kInvalid);
  EXPECT_EQ(Cu().copy_to_device(memory.at(), pinned.get() + 2, 16, stream), kInvalid);
  EXPECT_EQ(Cu().copy_to_host(local.data(), memory.at() + 8, 16, stream), kInvalid);
  EXPECT_EQ(Cu().fill(memory.at() + 16, 0, 4, stream), kInvalid);
  EXPECT_EQ(Cu().stream_write(stream, memory.at() + 16, 1, 0), kInvalid);
  EXPECT_EQ(Cu().stream_write(stream, memory.at() + 2, 1, 0), kInvalid);
  EXPECT_EQ(EmulatorFindings().size(), 5u);
  EXPECT_THAT(EmulatorFindings()[0], HasSubstr("the target of cuMemcpyHtoDAsync: 20 bytes at"));
  EXPECT_THAT(EmulatorFindings()[3], HasSubstr("0 behind the end of 16 bytes of GPU 0"));
  Control().clear_findings();
}

TEST_F(DriverTest, WhoeverWritesBehindAnAllocationIsFoundWhenItIsFreed) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  {
    OnGpu<int> memory(5);
    EXPECT_EQ(gpu.Launch("BehindItsEnd", stream, 1, 1, memory.get(), 5), kSuccess);
  }
  EXPECT_THAT(EmulatorFindings(), Each(HasSubstr("GPU 0")));
  ExpectFindings(::testing::Contains("GPU 0: somebody wrote behind 20 bytes of device memory"));
}

TEST_F(DriverTest, LaunchesThatNoGpuRunsAreRefused) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> to(1);
  const Function function = gpu.Kernel("LastOfShared");
  int* at = to.get();
  int bytes = 100 << 10;
  void* arguments[] = {&at, &bytes};
  const auto launch = [&](unsigned x, unsigned y, unsigned threads, unsigned shared) {
    return LaunchGrid(function, x, y, threads, shared, stream, arguments);
  };
  EXPECT_EQ(launch(0, 1, 1, 0), kInvalid);
  EXPECT_EQ(launch(1, 65'536, 1, 0), kInvalid);
  EXPECT_EQ(launch(1, 1, 1'025, 0), kInvalid);
  EXPECT_EQ(launch(1, 1, 1, 100 << 10), kInvalid);
  int value = 0;
  EXPECT_EQ(Cu().function_attribute(&value, cuda::kMostDynamicShared, function), kSuccess);
  EXPECT_EQ(value, 48 << 10);
  EXPECT_EQ(Cu().function_set_attribute(function, cuda::kMostDynamicShared, 300 << 10), kInvalid);
  EXPECT_EQ(Cu().function_set_attribute(function, cuda::kMostDynamicShared, 100 << 10), kSuccess);
  EXPECT_EQ(launch(1, 1, 1, 100 << 10), kSuccess);
  EXPECT_THAT(to.Read(stream), ElementsAre(7));
  arguments[1] = nullptr;
  EXPECT_EQ(launch(1, 1, 1, 0), kInvalid);
}

TEST_F(DriverTest, AnEarlyLaunchThatNeverWaitsIsFoundThoughNothingIsChecked) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> to(1);
  int* at = to.get();
  int by = 7;
  void* arguments[] = {&at, &by};
  cuda::LaunchAttribute attribute = {cuda::kProgrammaticSerialization, 0, {}};
  const cuda::LaunchConfig config = {1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1};
  const auto launch = [&] {
    return Cu().launch(&config, gpu.Kernel("NotItself"), arguments, nullptr);
  };
  Control().set_checks(false);
  EXPECT_EQ(launch(), kSuccess);
  EXPECT_THAT(to.Read(stream), ElementsAre(8));
  EXPECT_THAT(EmulatorFindings(), IsEmpty());
  attribute.value = 1;
  EXPECT_EQ(launch(), kSuccess);
  EXPECT_THAT(to.Read(stream), ElementsAre(8)) << "after what stands before it, here";
  ExpectFindings(ElementsAre(HasSubstr("NotItself, block (0, 0), thread 0: never waits")));
  attribute.id = 2;
  EXPECT_NE(launch(), kSuccess);
}

TEST_F(DriverTest, WhatDoesNotCompileIsToldInTheLog) {
  const Compiled compiled = Compile("\n__device__ int Wrong() { return missing; }\n");
  EXPECT_EQ(compiled.result, 6);
  EXPECT_THAT(compiled.log, HasSubstr("kernels:2:"));
  EXPECT_EQ(compiled.cubin.size(), 1u);
}

TEST_F(DriverTest, WhatKernelsDoWrongIsAFindingWithTheGpuThatRanThem) {
  const OneGpu gpu(1);
  const Stream stream = gpu.NewStream();
  OnGpu<int> to(1);
  EXPECT_EQ(gpu.Launch("Divergent", stream, 1, 64, to.get()), kSuccess);
  EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
  ASSERT_FALSE(EmulatorFindings().empty());
  EXPECT_THAT(EmulatorFindings()[0], HasSubstr("GPU 1: Divergent, block (0, 0)"));
  Control().clear_findings();
}

TEST_F(DriverTest, TwoGpusRunTheSameKernelAtOnce) {
  const auto run = [](int number) {
    const OneGpu gpu(number);
    const Stream stream = gpu.NewStream();
    constexpr int kNumbers = 1'000;
    OnGpu<int> numbers(kNumbers);
    EXPECT_EQ(Cu().fill(numbers.at(), 0, kNumbers * sizeof(int), stream), kSuccess);
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(gpu.Launch("Add", stream, 8, 128, IntSpan{numbers.get(), kNumbers}, number + 1),
                kSuccess);
    }
    EXPECT_THAT(numbers.Read(stream), Each(100 * (number + 1)));
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  second.join();
}

TEST_F(DriverTest, MemoryOfOneGpuIsNotReachedByTheOther) {
  const OneGpu first(0);
  const OnGpu<int> of_first(1);
  {
    const OneGpu second(1);
    EXPECT_EQ(Cu().fill(of_first.at(), 0, 4, second.NewStream()), kInvalid);
  }
  first.MakeCurrent();
  EXPECT_EQ(EmulatorFindings().size(), 1u);
  Control().clear_findings();
}

// Streams that were filled while the GPU stood still, so that only the seed decides.
std::vector<int> OrderOfTwoStreams(uint64_t seed) {
  const EmulatorControl& control = LoadedEmulator();
  const OneGpu gpu;
  const Stream streams[] = {gpu.NewStream(), gpu.NewStream()};
  OnGpu<int> list(41);
  EXPECT_EQ(Cu().fill(list.at(), 0, 4, streams[0]), kSuccess);
  EXPECT_EQ(Cu().stream_synchronize(streams[0]), kSuccess);
  control.hang(0, true);
  control.set_seed(seed);
  for (int i = 0; i < 20; ++i) {
    for (int s = 0; s < 2; ++s) {
      EXPECT_EQ(gpu.Launch("Note", streams[s], 1, 1, list.get(), s), kSuccess);
    }
  }
  control.hang(0, false);
  for (const Stream stream : streams) EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
  return list.Read(streams[0]);
}

TEST_F(DriverTest, SeedsGiveOtherOrdersOfStreamsAndTheSameSeedTheSame) {
  Control().set_checks(false);  // it is a race
  std::set<std::vector<int>> orders;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    orders.insert(OrderOfTwoStreams(seed));
    EXPECT_EQ(OrderOfTwoStreams(seed), OrderOfTwoStreams(seed));
  }
  EXPECT_EQ(orders.size(), 5u);
}

// What must hold of a GPU that has failed, until its context goes.
void ExpectFailed(const OneGpu& gpu, Stream stream, OnGpu<int>& memory) {
  size_t free = 0, total = 0;
  DevicePtr more = 0;
  EXPECT_EQ(Cu().stream_query(stream), kLaunchFailure);
  EXPECT_EQ(Cu().stream_synchronize(stream), kLaunchFailure);
  EXPECT_EQ(Cu().memory_info(&free, &total), kLaunchFailure);
  EXPECT_EQ(Cu().alloc(&more, 4), kLaunchFailure);
  EXPECT_EQ(Cu().fill(memory.at(), 0, 4, stream), kLaunchFailure);
  void* arguments[] = {nullptr, nullptr};
  EXPECT_EQ(LaunchGrid(nullptr, 1, 1, 1, 0, stream, arguments), kLaunchFailure);
  EXPECT_EQ(Cu().context_set(gpu.context), kSuccess);
  memory.expect_freed(kLaunchFailure);
}

TEST_F(DriverTest, ALaunchThatFailsIsTheErrorOfAllThatFollowsAndNothingIsWrittenAnyMore) {
  {
    const OneGpu gpu;
    const Stream stream = gpu.NewStream(), other = gpu.NewStream();
    OnGpu<int> list(4);
    Pinned<int> out(4);
    out.expect_freed(kLaunchFailure);
    EXPECT_EQ(Cu().fill(list.at(), 0, 16, stream), kSuccess);
    EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
    Control().fail_launch(0, 2);
    Control().hang(0, true);
    for (int i = 1; i <= 3; ++i) {
      EXPECT_EQ(gpu.Launch("Note", stream, 1, 1, list.get(), i), kSuccess);
      EXPECT_EQ(Cu().copy_to_host(out.get(), list.at(), 16, stream), kSuccess);
    }
    Control().hang(0, false);
    EXPECT_EQ(Cu().stream_synchronize(stream), kLaunchFailure);
    EXPECT_THAT(std::vector<int>(out.get(), out.get() + 4), ElementsAre(1, 1, 0, 0));
    EXPECT_EQ(Cu().stream_query(other), kLaunchFailure);
    ExpectFailed(gpu, stream, list);
    {
      const OneGpu healthy(1);
      EXPECT_EQ(Cu().stream_query(healthy.NewStream()), kSuccess);
    }
    gpu.MakeCurrent();
  }
  const OneGpu again;
  EXPECT_EQ(Cu().stream_query(again.NewStream()), kSuccess);
}

TEST_F(DriverTest, AGpuThatIsLostDropsWhatIsQueuedAndStaysLost) {
  Context context = nullptr;
  {
    const OneGpu gpu;
    const Stream stream = gpu.NewStream();
    OnGpu<int> list(2);
    Control().hang(0, true);
    EXPECT_EQ(Cu().fill(list.at(), 0, 4, stream), kSuccess);
    std::thread waits([&] {
      gpu.MakeCurrent();
      EXPECT_EQ(Cu().stream_synchronize(stream), kLaunchFailure);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Control().lose(0);
    waits.join();
    Control().hang(0, false);
    ExpectFailed(gpu, stream, list);
    Control().restore();
    EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
    EXPECT_THAT(list.Read(stream), ElementsAre(-1, -1));
    EXPECT_THAT(EmulatorFindings(), ElementsAre(HasSubstr("not written")));
    Control().clear_findings();
    list.expect_freed(kSuccess);
  }
  {
    const OneGpu gpu;
    Control().lose(0);
  }
  EXPECT_EQ(Cu().context_retain(&context, 0), kLaunchFailure);
  Control().restore();
  EXPECT_EQ(Cu().context_retain(&context, 0), kSuccess);
  EXPECT_EQ(Cu().context_release(0), kSuccess);
}

TEST_F(DriverTest, OperationsAreLateAtRandomWhenAsked) {
  const OneGpu gpu;
  const Stream stream = gpu.NewStream();
  OnGpu<int> memory(1);
  Control().delay_writes(0, 1, 20'000);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Cu().fill(memory.at(), 0, 4, stream), kSuccess);
  EXPECT_EQ(Cu().stream_synchronize(stream), kSuccess);
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(10));
}

TEST_F(DriverTest, ErrorsHaveNamesAndWords) {
  const char* text = nullptr;
  EXPECT_EQ(Cu().error_name(kLaunchFailure, &text), kSuccess);
  EXPECT_STREQ(text, "CUDA_ERROR_LAUNCH_FAILED");
  EXPECT_EQ(Cu().error_text(kNoGpu, &text), kSuccess);
  EXPECT_STREQ(text, "no CUDA-capable device is detected");
  EXPECT_EQ(Cu().error_name(12'345, &text), kInvalid);
  EXPECT_EQ(text, nullptr);
}

// Each in a process of its own, whose first call of the driver it is.
class EmulatorEnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(EmulatorEnvironmentTest, ADriverThatNobodyInitializedSaysSo) {
  const auto calls = [] {
    int count = 0;
    Context context = nullptr;
    const bool refused = Cu().device_count(&count) == kUninitialized &&
                         Cu().context_retain(&context, 0) == kUninitialized &&
                         Cu().context_set(nullptr) == kUninitialized;
    std::_Exit(refused && Cu().init(0) == kSuccess ? 7 : 1);
  };
  EXPECT_EXIT(calls(), ::testing::ExitedWithCode(7), "");
}

TEST_F(EmulatorEnvironmentTest, NoGpusIsAnErrorOfInit) {
  const auto calls = [] {
    setenv("CELLBATCH_EMULATED_GPUS", "0", 1);
    std::_Exit(Cu().init(0) == kNoGpu ? 7 : 1);
  };
  EXPECT_EXIT(calls(), ::testing::ExitedWithCode(7), "");
}

TEST_F(EmulatorEnvironmentTest, FaultsAreAskedForByTheEnvironment) {
  const auto calls = [] {
    setenv("CELLBATCH_EMULATOR_FAULTS", "delay=4:200;fail_launch=0:2", 1);
    Cu().init(0);
    const OneGpu gpu;
    const Stream stream = gpu.NewStream();
    OnGpu<int> list(4);
    Cu().fill(list.at(), 0, 4, stream);
    gpu.Launch("Note", stream, 1, 1, list.get(), 1);
    const Result first = Cu().stream_synchronize(stream);
    gpu.Launch("Note", stream, 1, 1, list.get(), 1);
    const Result second = Cu().stream_synchronize(stream);
    std::_Exit(first == kSuccess && second == kLaunchFailure ? 7 : 1);
  };
  EXPECT_EXIT(calls(), ::testing::ExitedWithCode(7), "");
}

TEST_F(EmulatorEnvironmentTest, FaultsThatMeanNothingEndTheProcess) {
  const auto calls = [] {
    setenv("CELLBATCH_EMULATOR_FAULTS", "delay=often", 1);
    Cu().init(0);
  };
  EXPECT_DEATH(calls(), "CELLBATCH_EMULATOR_FAULTS=delay=often means nothing");
}

}  // namespace
}  // namespace cellbatch::emulator
