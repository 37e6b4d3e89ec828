// Blocks of a cluster that run at once: what they bring for one another, and what is found of those that do it wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cuda_emulator/access_checker.h"
#include "tests/cuda_emulator/grid_runner.h"

namespace cellbatch::emulator {
namespace {

using ::testing::IsEmpty;

constexpr char kSource[] = R"(
extern __shared__ float4 cellbatch_shared[];

enum Mistake { kNone, kNotFree, kNotYet, kHalfAnnounced, kOwnBlockOnly, kFreeOfOwnOnly, kNoClusterBarrier, kLeaves, kPeeks, kNotWaitedForAtAll, kUnordered };

// Two blocks. The second warp of each brings its half of each piece, 32 ints, to both; the first one adds the halves up. Pieces go
// through a ring of two places.
extern "C" __global__ void __cluster_dims__(1, 2, 1) Share(const int* from, int* to, int pieces, int mistake) {
  int* const ring = reinterpret_cast<int*>(cellbatch_shared);
  unsigned long long* const full = reinterpret_cast<unsigned long long*>(ring + 2 * 64);
  unsigned long long* const free = full + 2;
  int* const more = reinterpret_cast<int*>(free + 2);
  const int block = cellbatch_block_of_cluster(), lane = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    cellbatch_init_barrier(full + threadIdx.x, 1);
    cellbatch_init_barrier(free + threadIdx.x, 2);
  }
  if (mistake == kUnordered) more[threadIdx.x] = 1;
  if (mistake == kNoClusterBarrier) __syncthreads(); else cellbatch_sync_cluster();
  if (mistake == kUnordered) to[threadIdx.x] = more[(threadIdx.x + 32) % 64];
  if (mistake == kLeaves && block == 1) return;
  if (mistake == kPeeks && block == 0 && threadIdx.x == 0) to[0] = ring[(227 << 10) / 4];
  for (int p = 0; p < pieces; ++p) {
    const int place = p % 2, round = p / 2 % 2;
    if (mistake == kNotWaitedForAtAll && p == 2) return;
    int* const at = ring + place * 64;
    if (threadIdx.x == 32) {
      if (mistake != kNotFree) cellbatch_wait_for_arrivals(free + place, round ^ 1);
      if (mistake != kNotWaitedForAtAll) cellbatch_arrive_and_expect(full + place, mistake == kHalfAnnounced ? 128 : 256);
      cellbatch_bulk_copy(at + block * 32, from + p * 64 + block * 32, 128, full + place,
                          mistake == kOwnBlockOnly ? 1u << block : 3u);
    }
    if (threadIdx.x >= 32 || mistake == kNotWaitedForAtAll) continue;
    if (mistake != kNotYet) cellbatch_wait_for_arrivals(full + place, round);
    to[(block * pieces + p) * 32 + lane] = at[lane] + at[32 + lane];
    __syncwarp();
    if (p + 2 >= pieces || lane >= 2) continue;
    if (mistake != kFreeOfOwnOnly || lane == block) cellbatch_arrive_at(free + place, lane);
  }
}
)";

enum Mistake : int {
  kNone,
  kNotFree,
  kNotYet,
  kHalfAnnounced,
  kOwnBlockOnly,
  kFreeOfOwnOnly,
  kNoClusterBarrier,
  kLeaves,
  kPeeks,
  kNotWaitedForAtAll,
  kUnordered
};

constexpr int kPieces = 9;
constexpr uint64_t kSeeds = 4;

const KernelObject& Kernels() {
  static const auto object = KernelObject::Compile(kSource, ::testing::TempDir() + "/kernels");
  if (!object.ok()) {
    std::fprintf(stderr, "%s\n", std::string(object.status().message()).c_str());
    std::abort();
  }
  return **object;
}

struct Ran {
  bool right = true;
  std::vector<std::string> findings;  // the runner's, then the checker's
};

Ran Share(int mistake, uint64_t seed, bool checked = true) {
  std::vector<int> from(kPieces * 64), to(2 * kPieces * 32, -1);
  std::iota(from.begin(), from.end(), 1000);
  GridRunner runner(seed);
  AccessChecker checker;
  checker.Allow(from.data(), from.size() * sizeof(int), true);
  checker.Allow(to.data(), to.size() * sizeof(int), false);
  if (checked) runner.set_observer(&checker);
  const int *source = from.data(), pieces = kPieces;
  int* target = to.data();
  void* arguments[] = {&source, &target, const_cast<int*>(&pieces), &mistake};
  EXPECT_TRUE(runner
                  .Run(Kernels(), *Kernels().Find("Share"),
                       {.y = 2, .threads = 64, .shared_bytes = 1024}, arguments)
                  .ok());
  Ran ran = {true, runner.findings()};
  for (size_t i = 0; i < to.size(); ++i) {
    const size_t first = i / 32 % kPieces * 64 + i % 32;
    ran.right = ran.right && to[i] == from[first] + from[first + 32];
  }
  ran.findings.insert(ran.findings.end(), checker.findings().begin(), checker.findings().end());
  return ran;
}

TEST(ClusterTest, EachBlockBringsItsPartToAll) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Ran ran = Share(kNone, seed), unchecked = Share(kNone, seed, false);
    EXPECT_TRUE(ran.right && unchecked.right) << "seed " << seed;
    EXPECT_THAT(ran.findings, IsEmpty());
    EXPECT_THAT(unchecked.findings, IsEmpty());
  }
}

TEST(ClusterTest, MistakesAreFound) {
  const struct {
    Mistake mistake;
    std::vector<const char*> found;  // one of them
  } all[] = {
      {kNotFree, {"race: writes", "copy under way"}},
      {kNotYet, {"copy under way: reads", "not written: reads"}},
      {kHalfAnnounced, {"copy under way", "arrivals that never come"}},
      {kOwnBlockOnly, {"arrivals that never come"}},
      {kFreeOfOwnOnly, {"arrivals that never come"}},
      {kNoClusterBarrier, {"race"}},
      {kLeaves, {"touches shared memory of block 1 of its cluster, which is gone"}},
      {kPeeks, {"out of bounds: reads 4 bytes at shared memory of block 1 of a cluster + 0"}},
      {kNotWaitedForAtAll, {"left while a copy was on its way to it"}},
      {kUnordered, {"race: reads"}},
  };
  for (const auto& [mistake, found] : all) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const std::vector<std::string> findings = Share(mistake, seed).findings;
      const bool any = std::any_of(findings.begin(), findings.end(), [&](const std::string& text) {
        return std::any_of(found.begin(), found.end(),
                           [&](const char* part) { return text.find(part) != std::string::npos; });
      });
      EXPECT_TRUE(any) << "mistake " << mistake << ", seed " << seed << ": "
                       << (findings.empty() ? "nothing" : findings.front());
    }
  }
}

// The bytes of a copy come to each block when they come: what nobody waits for is not there.
TEST(ClusterTest, WhatIsNotWaitedForIsNotThere) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) EXPECT_FALSE(Share(kNotYet, seed, false).right);
}

}  // namespace
}  // namespace cellbatch::emulator
