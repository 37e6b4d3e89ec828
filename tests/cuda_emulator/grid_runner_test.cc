// Kernels as ours are written, compiled and run: what they compute, and what is found of those that are wrong.
#include "tests/cuda_emulator/grid_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace cellbatch::emulator {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kSource[] = R"(
extern __shared__ float4 cellbatch_shared[];

// Sums of blocks: in shared memory, then over the lanes of the first warp; the last block adds them up.
extern "C" __global__ void Sum(const float* from, int n, float* sums, unsigned* tickets, float* sum) {
  float* const mine = reinterpret_cast<float*>(cellbatch_shared);
  const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  mine[t] = i < n ? from[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 32; half /= 2) {
    if (t < half) mine[t] += mine[t + half];
    __syncthreads();
  }
  if (t >= 32) return;
  float value = mine[t];
  for (int by = 16; by > 0; by /= 2) value += __shfl_down_sync(0xffffffffu, value, by);
  if (t != 0) return;
  sums[blockIdx.x] = value;
  __threadfence();
  if (atomicAdd(tickets, 1u) != gridDim.x - 1) return;
  __threadfence();
  float total = 0.0f;
  for (unsigned b = 0; b < gridDim.x; ++b) total += sums[b];
  *sum = total;
}

// c[m x n] = a[m x k] . b[k x n], 16 x 16 tiles, one dimension of threads.
extern "C" __global__ void __launch_bounds__(256) Product(const float* __restrict__ a, const float* __restrict__ b,
                                                          float* __restrict__ c, int m, int n, int k) {
  float* const left = reinterpret_cast<float*>(cellbatch_shared);
  float* const right = left + 256;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0.0f;
  for (int at = 0; at < k; at += 16) {
    left[y * 16 + x] = row < m && at + x < k ? a[row * k + at + x] : 0.0f;
    right[y * 16 + x] = column < n && at + y < k ? b[(at + y) * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum = fmaf(left[y * 16 + i], right[i * 16 + x], sum);
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void Lanes(int* up, int* across, int* one) {
  const int t = threadIdx.x;
  up[t] = __shfl_up_sync(0xffffffffu, t, 3);
  across[t] = __shfl_xor_sync(0xffffffffu, t, 5);
  one[t] = __shfl_sync(0xffffffffu, t, 1, 8);
}

struct Two { int* to; int by; };
extern "C" __global__ void Add(Two two, long long more) { atomicAdd(two.to, two.by + (int)more); }

// The second warp copies what the first one takes, round after round through one place: barrier 0 says that it is there, barrier 1 that
// it was taken. `mistake` 1: it is said before it is there; 2: nobody is told that it was taken.
extern "C" __global__ void Rounds(const int* from, int* to, int rounds, int mistake) {
  int* const place = reinterpret_cast<int*>(cellbatch_shared);
  unsigned long long* const barriers = reinterpret_cast<unsigned long long*>(place + 32);
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 2) cellbatch_init_barrier(barriers + threadIdx.x, 32);
  __syncthreads();
  for (int r = 0; r < rounds; ++r) {
    if (threadIdx.x >= 32) {
      cellbatch_wait_for_arrivals(barriers + 1, (r + 1) % 2);
      cellbatch_copy_async(place + lane, 4, from + r * 32 + lane, 4);
      if (mistake == 1) cellbatch_arrive(barriers); else cellbatch_arrive_when_copied(barriers);
    } else {
      cellbatch_wait_for_arrivals(barriers, r % 2);
      to[r * 32 + lane] = place[31 - lane];
      if (mistake != 2) cellbatch_arrive(barriers + 1);
    }
  }
}

extern "C" __global__ void __cluster_dims__(1, 2, 1) __launch_bounds__(32) Pairs(unsigned* blocks) { atomicAdd(blocks, 1u); }

// __global__ void Commented(int) is none.
extern "C" __global__ void Tiny(const float* from, float* to) { *to = *from * 0.5f; }

// A barrier is missing: the thread that writes `to` reads what others write.
extern "C" __global__ void Unordered(int* to) {
  int* const mine = reinterpret_cast<int*>(cellbatch_shared);
  mine[threadIdx.x] = threadIdx.x;
  to[threadIdx.x] = mine[(threadIdx.x + 1) % blockDim.x];
}
// One instruction: units by k, nodes by k, to units by nodes.
extern "C" __global__ void Tf32(const unsigned* units, const unsigned* nodes, float* to) {
  const int g = threadIdx.x / 4, t = threadIdx.x % 4;
  const unsigned given[6] = {units[8 * g + t],     units[8 * (g + 8) + t], units[8 * g + t + 4],
                             units[8 * (g + 8) + t + 4], nodes[8 * g + t],  nodes[8 * g + t + 4]};
  float* const at[4] = {to + 8 * g + 2 * t, to + 8 * g + 2 * t + 1, to + 8 * (g + 8) + 2 * t,
                        to + 8 * (g + 8) + 2 * t + 1};
  float sums[4] = {*at[0], *at[1], *at[2], *at[3]};
  CellbatchMmaTf32(sums, given);
  for (int i = 0; i < 4; ++i) *at[i] = sums[i];
}

extern "C" __global__ void Divergent(int* to) {
  if (threadIdx.x == 5) return;
  __syncthreads();
  atomicAdd(to, 1);
}
)";

class GridRunnerTest : public ::testing::Test {
 protected:
  static const KernelObject& Kernels() {
    static const auto object = KernelObject::Compile(kSource, ::testing::TempDir() + "/kernels");
    if (!object.ok()) {
      std::fprintf(stderr, "%s\n", std::string(object.status().message()).c_str());
      std::abort();
    }
    return **object;
  }
  template <typename... A>
  absl::Status Run(const char* name, const Grid& grid, A... arguments) {
    void* pointers[] = {&arguments...};
    return runner_.Run(Kernels(), *Kernels().Find(name), grid, pointers);
  }

  static constexpr uint64_t kSeed = 17;
  GridRunner runner_{kSeed};
};

TEST_F(GridRunnerTest, BlocksSumUpAndTheLastOneAddsTheSums) {
  for (int n : {1, 100, 1000, 5000}) {
    std::vector<float> from(static_cast<size_t>(n));
    std::iota(from.begin(), from.end(), 1.0f);
    const auto blocks = static_cast<unsigned>((n + 127) / 128);
    std::vector<float> sums(blocks);
    unsigned tickets = 0;
    float sum = 0;
    ASSERT_TRUE(Run("Sum", {.x = blocks, .threads = 128, .shared_bytes = 512},
                    static_cast<const float*>(from.data()), n, sums.data(), &tickets, &sum)
                    .ok());
    EXPECT_EQ(tickets, blocks);
    EXPECT_NEAR(sum, 0.5 * n * (n + 1.0), 1e-6 * n * n);
  }
  EXPECT_THAT(runner_.findings(), IsEmpty());
}

TEST_F(GridRunnerTest, ATiledProductHasOneOrderOfSums) {
  constexpr int kM = 33, kN = 20, kK = 70;
  std::vector<float> a(kM * kK), b(kK * kN), c(kM * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = std::sin(static_cast<float>(i));
  for (size_t i = 0; i < b.size(); ++i) b[i] = std::cos(static_cast<float>(i));
  ASSERT_TRUE(Run("Product", {.x = 2, .y = 3, .threads = 256, .shared_bytes = 2048},
                  static_cast<const float*>(a.data()), static_cast<const float*>(b.data()),
                  c.data(), kM, kN, kK)
                  .ok());
  for (int m = 0; m < kM; ++m) {
    for (int n = 0; n < kN; ++n) {
      float sum = 0;
      for (int k = 0; k < kK; ++k) {
        sum = std::fma(a[static_cast<size_t>(m * kK + k)], b[static_cast<size_t>(k * kN + n)], sum);
      }
      ASSERT_EQ(c[static_cast<size_t>(m * kN + n)], sum) << m << " " << n;
    }
  }
  EXPECT_THAT(runner_.findings(), IsEmpty());
}

TEST_F(GridRunnerTest, ShufflesMoveValuesBetweenLanesOfOneWarp) {
  std::vector<int> up(64), across(64), one(64);
  ASSERT_TRUE(Run("Lanes", {.threads = 64}, up.data(), across.data(), one.data()).ok());
  for (int t = 0; t < 64; ++t) {
    const auto i = static_cast<size_t>(t);
    EXPECT_EQ(up[i], t % 32 < 3 ? t : t - 3);
    EXPECT_EQ(across[i] % 32, (t % 32) ^ 5);
    EXPECT_EQ(one[i], t / 8 * 8 + 1);
  }
  EXPECT_THAT(runner_.findings(), IsEmpty());
}

TEST_F(GridRunnerTest, ArgumentsAreOfAnyTypeAndTheirSizesAreKnown) {
  struct Two {
    int* to;
    int by;
  };
  int sum = 0;
  ASSERT_TRUE(Run("Add", {.x = 3, .y = 2, .threads = 40}, Two{&sum, 2}, 5LL).ok());
  EXPECT_EQ(sum, 3 * 2 * 40 * 7);
  EXPECT_THAT(Kernels().Find("Add")->argument_bytes, ElementsAre(16, 8));
  EXPECT_EQ(Kernels().Find("Commented"), nullptr);
}

TEST_F(GridRunnerTest, DenormalsAreFlushedAndTheCallersModeComesBack) {
  const float smallest = 1.2e-38f;
  float to = 1;
  ASSERT_TRUE(Run("Tiny", {}, &smallest, &to).ok());
  EXPECT_EQ(to, 0);
  volatile float half = smallest;
  EXPECT_GT(half * 0.5f, 0.0f);
}

// sums += a . b of tf32: the lowest 13 bits of what is given are nothing, and what is added loses what lies 24 bits below the
// largest term, towards zero.
TEST_F(GridRunnerTest, TensorCoresIgnoreBitsAndCut) {
  std::vector<float> units(16 * 8), nodes(8 * 8), to(16 * 8, 0.0f);
  for (size_t i = 0; i < units.size(); ++i) units[i] = static_cast<float>(i % 19) - 9.0f;
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<float>(i % 7) * 0.25f;
  const auto run = [&] {
    ASSERT_TRUE(Run("Tf32", {.threads = 32}, reinterpret_cast<const unsigned*>(units.data()),
                    reinterpret_cast<const unsigned*>(nodes.data()), to.data())
                    .ok());
  };
  run();
  for (size_t u = 0; u < 16; ++u) {
    for (size_t n = 0; n < 8; ++n) {
      float sum = 0;
      for (size_t k = 0; k < 8; ++k) sum += units[8 * u + k] * nodes[8 * n + k];
      ASSERT_EQ(to[8 * u + n], sum) << u << " " << n;
    }
  }
  // 1 + 2^-10 is a tf32, and 2^-11 beside it is nothing.
  std::fill(units.begin(), units.end(), 1.0f + 0x1p-10f + 0x1p-11f);
  std::fill(nodes.begin(), nodes.end(), 0.0f);
  nodes[0] = 1.0f;
  std::fill(to.begin(), to.end(), 0.0f);
  run();
  EXPECT_EQ(to[0], 1.0f + 0x1p-10f);
  // Eight terms just below the last place of 1: exactly added up nearly eight of them, here none.
  std::fill(units.begin(), units.end(), -0x1p-24f);
  std::fill(nodes.begin(), nodes.end(), 1.9990234375f);
  std::fill(to.begin(), to.end(), 1.0f);
  run();
  EXPECT_EQ(to[5], 1.0f);
  std::fill(nodes.begin(), nodes.end(), std::nanf(""));
  run();
  EXPECT_TRUE(std::isnan(to[5]));
  EXPECT_THAT(runner_.findings(), IsEmpty());
}

TEST_F(GridRunnerTest, WhatAMissingBarrierBreaksDependsOnTheSeedAndIsTheSameForTheSame) {
  const auto run = [&](uint64_t seed) {
    GridRunner runner(seed);
    std::vector<int> to(64);
    int* data = to.data();
    void* pointers[] = {&data};
    EXPECT_TRUE(runner
                    .Run(Kernels(), *Kernels().Find("Unordered"),
                         {.threads = 64, .shared_bytes = 256}, pointers)
                    .ok());
    return to;
  };
  std::set<std::vector<int>> seen;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    EXPECT_EQ(run(seed), run(seed));
    seen.insert(run(seed));
  }
  EXPECT_GT(seen.size(), 3u);
}

TEST_F(GridRunnerTest, ABarrierThatNotAllReachIsAFindingAndTheOthersGoOn) {
  int arrived = 0;
  ASSERT_TRUE(Run("Divergent", {.threads = 64}, &arrived).ok());
  EXPECT_EQ(arrived, 63);
  EXPECT_THAT(
      runner_.findings(),
      ElementsAre(HasSubstr("of 64 threads 63 wait at a barrier of the block and 1 have left")));
}

TEST_F(GridRunnerTest, BarriersSayWhatHasComeAndWhatWasTaken) {
  constexpr int kRounds = 5;
  std::vector<int> from(32 * kRounds), to(32 * kRounds), expected(32 * kRounds);
  std::iota(from.begin(), from.end(), 1);
  for (size_t i = 0; i < to.size(); ++i) expected[i] = from[i / 32 * 32 + 31 - i % 32];
  const Grid grid = {.threads = 64, .shared_bytes = 256};
  const int* const source = from.data();
  ASSERT_TRUE(Run("Rounds", grid, source, to.data(), kRounds, 0).ok());
  EXPECT_EQ(to, expected);
  EXPECT_THAT(runner_.findings(), IsEmpty());
  ASSERT_TRUE(Run("Rounds", grid, source, to.data(), kRounds, 1).ok());
  EXPECT_NE(to, expected) << "a copy comes as late as it may";
  EXPECT_THAT(runner_.findings(), IsEmpty());
  ASSERT_TRUE(Run("Rounds", grid, source, to.data(), kRounds, 2).ok());
  EXPECT_THAT(runner_.findings(), Contains(HasSubstr("32 wait for arrivals that never come")));
}

TEST_F(GridRunnerTest, AGridHasWholeClusters) {
  unsigned blocks = 0;
  EXPECT_TRUE(Run("Pairs", {.x = 3, .y = 4, .threads = 32}, &blocks).ok());
  EXPECT_EQ(blocks, 12u * 32);
  EXPECT_EQ(Run("Pairs", {.x = 4, .y = 3, .threads = 32}, &blocks).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(GridRunnerTest, AnObserverSeesEveryAccessWithTheThreadThatMadeIt) {
  class Seen final : public AccessObserver {
   public:
    void Accessed(const RunningThread& thread, const void* at, size_t bytes, int kind) override {
      if (kind != 2) return;
      EXPECT_EQ(bytes, 4u);
      ++by_place[{thread.block_x, thread.thread}];
      places.insert(at);
    }
    std::map<std::pair<unsigned, unsigned>, int> by_place;
    std::set<const void*> places;
  } seen;
  struct Two {
    int* to;
    int by;
  };
  int sum = 0;
  runner_.set_observer(&seen);
  ASSERT_TRUE(Run("Add", {.x = 2, .threads = 3}, Two{&sum, 1}, 0LL).ok());
  EXPECT_EQ(seen.by_place.size(), 6u);
  EXPECT_THAT(seen.places, ElementsAre(&sum));
}

TEST_F(GridRunnerTest, GridsThatNoGpuRunsAreRefused) {
  int sum = 0;
  EXPECT_FALSE(Run("Divergent", {.threads = 1025}, &sum).ok());
  EXPECT_FALSE(Run("Divergent", {.x = 0}, &sum).ok());
  EXPECT_FALSE(Run("Divergent", {.y = 70'000}, &sum).ok());
  EXPECT_FALSE(Run("Divergent", {.shared_bytes = 300'000}, &sum).ok());
}

TEST(KernelObjectTest, UnwatchedKernelsLeaveTheSameBitsAndAreForNobodyToLookAt) {
  const auto watched = KernelObject::Compile(kSource, ::testing::TempDir());
  ASSERT_TRUE(watched.ok()) << watched.status();
  const auto unwatched = (*watched)->As(Watched::kNo);
  ASSERT_TRUE(unwatched.ok()) << unwatched.status();
  EXPECT_EQ(*(*watched)->As(Watched::kYes), watched->get());
  EXPECT_EQ(*(*watched)->As(Watched::kNo), *unwatched);
  ASSERT_NE(*unwatched, watched->get());

  class Counts final : public AccessObserver {
   public:
    void Accessed(const RunningThread&, const void*, size_t, int) override { ++accesses; }
    int accesses = 0;
  } counts;
  std::vector<float> from(300);
  for (size_t i = 0; i < from.size(); ++i) from[i] = std::sin(static_cast<float>(i));
  std::vector<float> left;
  for (const KernelObject* const object :
       {static_cast<const KernelObject*>(watched->get()), *unwatched}) {
    const float* source = from.data();
    std::vector<float> sums(3);
    unsigned tickets = 0;
    unsigned* to_tickets = &tickets;
    int n = 300;
    float sum = 0, *to = &sum, *to_sums = sums.data();
    void* arguments[] = {&source, &n, &to_sums, &to_tickets, &to};
    const Grid grid = {.x = 3, .threads = 128, .shared_bytes = 512};
    GridRunner runner(1);
    ASSERT_TRUE(runner.Run(*object, *object->Find("Sum"), grid, arguments).ok());
    EXPECT_THAT(runner.findings(), IsEmpty());
    left.push_back(sum);
    runner.set_observer(&counts);
    const bool looked_at = runner.Run(*object, *object->Find("Sum"), grid, arguments).ok();
    EXPECT_EQ(looked_at, object->watched() == Watched::kYes);
  }
  EXPECT_EQ(left[0], left[1]);
  EXPECT_GT(counts.accesses, 300);
}

TEST(KernelObjectTest, WhatDoesNotCompileIsToldInTheCompilersWordsByTheSourcesOwnLines) {
  const auto object = KernelObject::Compile("\n__device__ int Wrong() { return missing; }\n",
                                            ::testing::TempDir() + "/wrong");
  EXPECT_EQ(object.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(object.status().message()), HasSubstr("kernels:2:"));
  const auto mangled =
      KernelObject::Compile("__global__ void Mangled(int) {}", ::testing::TempDir() + "/wrong");
  EXPECT_THAT(std::string(mangled.status().message()), HasSubstr("is not extern \"C\""));
}

}  // namespace
}  // namespace cellbatch::emulator
