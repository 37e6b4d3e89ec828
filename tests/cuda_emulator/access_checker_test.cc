// Small kernels, each rule of the checker both ways: found where it should be, silent where it should be.
#include "tests/cuda_emulator/access_checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace cellbatch::emulator {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kSource[] = R"(
extern __shared__ float4 cellbatch_shared[];
__device__ inline int* Shared() { return reinterpret_cast<int*>(cellbatch_shared); }

// Where threads meet.
enum Meeting { kNowhere, kBlock, kWarp, kShuffle, kHalfWarp };
__device__ inline void Meet(int where) {
  if (where == kBlock) __syncthreads();
  if (where == kWarp) __syncwarp();
  if (where == kShuffle) __shfl_sync(0xffffffffu, 1, 0);
  if (where == kHalfWarp) __syncwarp(threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u);
}

// Each thread gives an int to the one `by` on, and takes one.
extern "C" __global__ void Hand(int* to, int by, int where) {
  Shared()[threadIdx.x] = 1;
  Meet(where);
  to[threadIdx.x] = Shared()[(threadIdx.x + by) % blockDim.x];
}
// The other way around: read, then written over by somebody else.
extern "C" __global__ void Take(int* to, int by, int where) {
  Shared()[threadIdx.x] = 1;
  __syncthreads();
  to[threadIdx.x] = Shared()[(threadIdx.x + by) % blockDim.x];
  Meet(where);
  Shared()[threadIdx.x] = 2;
}
extern "C" __global__ void Same(int* to) { to[0] = 7; }
extern "C" __global__ void Count(int* to, int plainly) {
  if (plainly) to[0] += 1; else atomicAdd(to, 1);
}
extern "C" __global__ void Mixed(int* to) {
  if (threadIdx.x == 0) to[0] = 1; else atomicAdd(to, 1);
}
extern "C" __global__ void Look(int* to, int* seen) {
  seen[threadIdx.x] = __atomic_load_n(to, __ATOMIC_RELAXED) + to[0];
}

// Each block leaves an int; who draws the last ticket adds them up. What is left out is given by bits.
enum LeftOut { kFirstFence = 1, kLastFence = 2, kBarrier = 4, kAllFences = 8 };
extern "C" __global__ void Last(int* parts, unsigned* ticket, int* sum, int left_out) {
  parts[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  if ((left_out & kFirstFence) == 0 && ((left_out & kAllFences) == 0 || threadIdx.x == 0)) __threadfence();
  if ((left_out & kBarrier) == 0) __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(ticket, 1u) != gridDim.x - 1) return;
  if ((left_out & kLastFence) == 0) __threadfence();
  int total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += parts[i];
  *sum = total;
  *ticket = 0;
}
// The ticket is taken back by who has not drawn the last, or none.
extern "C" __global__ void Reset(unsigned* ticket, int draw) {
  if (blockIdx.x != 0) { atomicAdd(ticket, 1u); return; }
  if (draw) atomicAdd(ticket, 1u); else __atomic_store_n(ticket, 1u, __ATOMIC_RELAXED);
  *ticket = 0;
}
// One fence, of the thread that draws, behind the barrier: CUDA's grid barriers.
extern "C" __global__ void LastOfGroup(int* parts, unsigned* ticket, int* sum) {
  parts[blockIdx.x * blockDim.x + threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (__atomic_fetch_add(ticket, 1u, __ATOMIC_ACQ_REL) != gridDim.x - 1) return;
  int total = 0;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += parts[i];
  *sum = total;
}
// The first block writes behind its fence.
extern "C" __global__ void TooLate(int* parts, unsigned* ticket, int* sum) {
  if (threadIdx.x == 0) {
    __threadfence();
    parts[blockIdx.x] = 1;
    if (atomicAdd(ticket, 1u) != gridDim.x - 1) return;
    __threadfence();
    *sum = parts[0] + parts[gridDim.x - 1];
  }
}

// Waits for the launch before it never, when it has read, or first of all.
extern "C" __global__ void Early(const int* from, int* to, int waits) {
  Shared()[threadIdx.x] = 7;
  if (waits == 2) cellbatch_wait_for_grids();
  const int read = from[threadIdx.x];
  if (waits == 1) cellbatch_wait_for_grids();
  to[threadIdx.x] = read + Shared()[threadIdx.x];
}

extern "C" __global__ void Copy(const int* from, int* to, int n, int offset) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) to[i] = from[i + offset];
}
extern "C" __global__ void Bytes(unsigned char* to) { to[threadIdx.x] = 1; }
extern "C" __global__ void Wide(const char* from, long long* to) {
  *to = *reinterpret_cast<const long long*>(from);
}
struct Three { int a, b, c; };
struct Two { int a, b; };
extern "C" __global__ void Structs(const Three* three, const Two* two, Three* to, Two* to_two) {
  to[threadIdx.x] = three[threadIdx.x];
  to_two[threadIdx.x] = two[threadIdx.x];
}
extern "C" __global__ void Own(int* to, int at) {
  int mine[8];
  for (int i = 0; i < 8; ++i) mine[(i + at) % 8] = i;
  to[threadIdx.x] = mine[at];
}
extern "C" __global__ void ReadShared(int* to, int at) { to[threadIdx.x] = Shared()[at]; }
extern "C" __global__ void WriteByFirstBlock(int* to) {
  if (gridDim.x == 1 || blockIdx.x == 0) Shared()[threadIdx.x] = 1;
  to[blockIdx.x * blockDim.x + threadIdx.x] = Shared()[threadIdx.x];
}

// Three groups of one copy each, of this thread's int of three rows; `all_but` are not waited for, and piece `use` is used.
extern "C" __global__ void Ahead(const int* from, int* to, int all_but, int use, int where, int by) {
  const int t = threadIdx.x, n = blockDim.x;
  for (int p = 0; p < 3; ++p) {
    cellbatch_copy_async(Shared() + p * n + t, 4, from + p * n + t, 4);
    cellbatch_close_group();
  }
  if (all_but >= 0) cellbatch_wait_for_groups(all_but);
  Meet(where);
  to[t] = Shared()[use * n + (t + by) % n];
}
// Copies start where others still read.
extern "C" __global__ void Over(const int* from, int* to, int where) {
  const int t = threadIdx.x, n = blockDim.x;
  Shared()[t] = t;
  __syncthreads();
  to[t] = Shared()[(t + 1) % n];
  Meet(where);
  cellbatch_copy_async(Shared() + t, 4, from + t, 4);
  cellbatch_close_group();
  cellbatch_wait_for_groups(0);
}
// The source is written while it is copied.
extern "C" __global__ void Under(int* from, int* to, int write) {
  const int t = threadIdx.x;
  if (write == 0) from[t] = 5;
  cellbatch_copy_async(Shared() + t, 4, from + t, 4);
  cellbatch_close_group();
  if (write == 1) from[t] = 6;
  cellbatch_wait_for_groups(0);
  if (write == 2) from[t] = 7;
  to[t] = Shared()[t];
}
// Each thread but the first copies or writes, and arrives likewise, unless it writes and arrives as if it had copied; the first one
// waits, unless it does not, and reads.
extern "C" __global__ void Arrivals(const int* from, int* to, int waits, int as_copied) {
  const int t = threadIdx.x, n = blockDim.x;
  unsigned long long* const barrier = reinterpret_cast<unsigned long long*>(Shared() + n);
  if (t == 0) cellbatch_init_barrier(barrier, n - 1);
  __syncthreads();
  if (t > 0) {
    if (t % 2 == 0) {
      cellbatch_copy_async(Shared() + t, 4, from + t, 4);
      cellbatch_arrive_when_copied(barrier);
    } else {
      Shared()[t] = from[t];
      if (as_copied != 0) cellbatch_arrive_when_copied(barrier); else cellbatch_arrive(barrier);
    }
    return;
  }
  if (waits != 0) cellbatch_wait_for_arrivals(barrier, 0);
  for (int i = 1; i < n; ++i) to[i] = Shared()[i];
}
extern "C" __global__ void WideCopy(const char* from, int* to) {
  cellbatch_copy_async(Shared(), 16, from, 16);
  cellbatch_close_group();
  cellbatch_wait_for_groups(0);
  to[0] = Shared()[3];
}
)";

enum Meeting { kNowhere, kBlock, kWarpBarrier, kShuffle, kHalfWarp };
enum LeftOut { kNothing = 0, kFirstFence = 1, kLastFence = 2, kBarrier = 4, kAllFencesButOne = 8 };

const KernelObject& Kernels() {
  static const auto object = KernelObject::Compile(kSource, ::testing::TempDir() + "/checked");
  if (!object.ok()) {
    std::fprintf(stderr, "%s\n", std::string(object.status().message()).c_str());
    std::abort();
  }
  return **object;
}

class AccessCheckerTest : public ::testing::Test {
 protected:
  // Ints that kernels may touch, with an end that they may not.
  int* Ints(size_t n, bool written = true) {
    memory_.push_back(std::make_unique<std::vector<int>>(n + 8, 1));
    Allow(memory_.back()->data(), 4 * n, written);
    return memory_.back()->data();
  }
  void Allow(const void* from, size_t bytes, bool written) {
    ranges_.push_back({from, bytes, written});
  }
  // What is found, by several seeds: all find the same kind, or nothing.
  template <typename... A>
  std::vector<std::string> Found(const char* name, const Grid& grid, A... arguments) {
    void* pointers[] = {&arguments...};
    std::vector<std::string> all;
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      AccessChecker checker;
      for (const Range& range : ranges_) checker.Allow(range.from, range.bytes, range.written);
      GridRunner runner(seed);
      runner.set_observer(&checker);
      EXPECT_TRUE(runner.Run(Kernels(), *Kernels().Find(name), grid, pointers).ok());
      EXPECT_THAT(runner.findings(), IsEmpty());
      EXPECT_TRUE(seed == 1 || checker.findings().empty() == all.empty()) << name << " " << seed;
      all.insert(all.end(), checker.findings().begin(), checker.findings().end());
      for (const auto& ints : memory_) std::fill(ints->begin(), ints->end(), 1);
      if (ticket_ != nullptr) *ticket_ = 0;
    }
    return all;
  }
  // The same of a launch that reads what the launch before it wrote, or one `between` which and it others ran.
  std::vector<std::string> FoundBehindACopy(const char* name, const Grid& grid, int argument,
                                            int between = 0) {
    std::vector<int> from(64, 1), copied(64), to(64);
    AccessChecker checker;
    for (const auto* ints : {&from, &copied, &to}) checker.Allow(ints->data(), 256, true);
    GridRunner runner(1);
    runner.set_observer(&checker);
    int *source = from.data(), *middle = copied.data(), *end = to.data(), all = 64, none = 0;
    void* of_copy[] = {&source, &middle, &all, &none};
    void* of_launch[] = {&middle, &end, &argument};
    void* of_other[] = {&source, &end, &all, &none};
    EXPECT_TRUE(runner.Run(Kernels(), *Kernels().Find("Copy"), {.threads = 64}, of_copy).ok());
    for (int i = 0; i < between; ++i) {
      EXPECT_TRUE(runner.Run(Kernels(), *Kernels().Find("Copy"), {.threads = 64}, of_other).ok());
    }
    EXPECT_TRUE(runner.Run(Kernels(), *Kernels().Find(name), grid, of_launch).ok());
    return checker.findings();
  }
  unsigned* Ticket() {
    ticket_ = reinterpret_cast<unsigned*>(Ints(1));
    *ticket_ = 0;
    return ticket_;
  }

 private:
  struct Range {
    const void* from;
    size_t bytes;
    bool written;
  };
  std::vector<std::unique_ptr<std::vector<int>>> memory_;
  std::vector<Range> ranges_;
  unsigned* ticket_ = nullptr;
};

constexpr Grid kTwoWarps = {.threads = 64, .shared_bytes = 1024};
constexpr Grid kTwoBlocks = {.x = 2, .threads = 32, .shared_bytes = 1024};

auto AllAre(const char* what) { return AllOf(Not(IsEmpty()), Each(HasSubstr(what))); }

TEST_F(AccessCheckerTest, ThreadsOfABlockAreOrderedByItsBarriers) {
  for (const char* kernel : {"Hand", "Take"}) {
    EXPECT_THAT(Found(kernel, kTwoWarps, Ints(64), 32, int{kBlock}), IsEmpty()) << kernel;
    for (const int where : {kNowhere, kWarpBarrier, kShuffle, kHalfWarp}) {
      EXPECT_THAT(Found(kernel, kTwoWarps, Ints(64), 32, where), Not(IsEmpty())) << kernel << where;
    }
  }
  EXPECT_THAT(Found("Take", kTwoWarps, Ints(64), 32, int{kNowhere}), AllAre("race"));
}

TEST_F(AccessCheckerTest, LanesOfAWarpAreOrderedByItsBarriersAndNotByShuffles) {
  const Grid warp = {.threads = 32, .shared_bytes = 128};
  for (const char* kernel : {"Hand", "Take"}) {
    for (const int where : {kBlock, kWarpBarrier}) {
      EXPECT_THAT(Found(kernel, warp, Ints(32), 1, where), IsEmpty()) << kernel << where;
    }
    for (const int where : {kNowhere, kShuffle, kHalfWarp}) {
      EXPECT_THAT(Found(kernel, warp, Ints(32), 1, where), Not(IsEmpty())) << kernel << where;
    }
    EXPECT_THAT(Found(kernel, warp, Ints(32), 0, int{kNowhere}), IsEmpty()) << "its own";
  }
  // Lanes 15 and 31 alone read what the other half wrote.
  EXPECT_THAT(Found("Take", warp, Ints(32), 1, int{kHalfWarp}), SizeIs(3 * 2));
}

TEST_F(AccessCheckerTest, ARaceNamesKernelThreadsAndPlace) {
  const Grid two = {.x = 1, .threads = 2};
  EXPECT_THAT(
      Found("Same", two, Ints(4)),
      Each(AnyOf("Same, block (0, 0), thread 1: race: writes 4 bytes at allocation 0 + 0, which "
                 "block (0, 0), thread 0 wrote: nothing orders them",
                 "Same, block (0, 0), thread 0: race: writes 4 bytes at allocation 0 + 0, which "
                 "block (0, 0), thread 1 wrote: nothing orders them")));
}

TEST_F(AccessCheckerTest, TheSameValueWrittenByTwoIsARaceUnlessAtomically) {
  EXPECT_THAT(Found("Same", kTwoWarps, Ints(1)), AllAre("race"));
  EXPECT_THAT(Found("Same", {.x = 2}, Ints(1)), AllAre("race"));
  EXPECT_THAT(Found("Count", kTwoBlocks, Ints(1), 1), AllAre("race"));
  EXPECT_THAT(Found("Count", kTwoBlocks, Ints(1), 0), IsEmpty());
  EXPECT_THAT(Found("Mixed", kTwoWarps, Ints(1)), AllAre("race"));
  EXPECT_THAT(Found("Look", kTwoWarps, Ints(1), Ints(64)), IsEmpty());
}

TEST_F(AccessCheckerTest, BytesOfOneWordMayBeOfSeveralThreads) {
  EXPECT_THAT(Found("Bytes", kTwoWarps, reinterpret_cast<unsigned char*>(Ints(16))), IsEmpty());
}

TEST_F(AccessCheckerTest, BlocksAreOrderedByFencesAroundATicketOnly) {
  const Grid blocks = {.x = 5, .threads = 64};
  int* const parts = Ints(320, false);
  int* const sum = Ints(1, false);
  unsigned* const ticket = Ticket();
  const auto found = [&](int left_out) {
    return Found("Last", blocks, parts, ticket, sum, left_out);
  };
  EXPECT_THAT(found(kNothing), IsEmpty());
  EXPECT_THAT(found(kFirstFence), AllAre("race: reads 4 bytes at allocation 0"));
  EXPECT_THAT(found(kLastFence), AllAre("race: reads 4 bytes at allocation 0"));
  EXPECT_THAT(found(kBarrier), Contains(HasSubstr("race: reads 4 bytes at allocation 0")));
  EXPECT_THAT(found(kAllFencesButOne), AllAre("race: reads 4 bytes at allocation 0"))
      << "a fence before the barrier publishes what its own thread knew";
  EXPECT_THAT(Found("LastOfGroup", blocks, parts, ticket, sum), IsEmpty());
  EXPECT_THAT(Found("TooLate", {.x = 4}, parts, ticket, sum), AllAre("race"));
  EXPECT_THAT(Found("Reset", {.x = 4}, ticket, 0), AllAre("race"));
}

TEST_F(AccessCheckerTest, AnEarlyLaunchTouchesWhatIsNotItsBlocksWhenItHasWaited) {
  Grid grid = {.x = 2, .threads = 4, .shared_bytes = 64};
  EXPECT_THAT(Found("Early", grid, Ints(4), Ints(4), 1), AllAre("race"));
  grid.x = 1;
  EXPECT_THAT(Found("Early", grid, Ints(4), Ints(4), 0), IsEmpty());
  const auto behind_a_copy = [&](int waits, int between = 0) {
    return FoundBehindACopy("Early", grid, waits, between);
  };
  EXPECT_THAT(behind_a_copy(1), IsEmpty()) << "it begins when the copy has ended";
  grid.early = true;
  EXPECT_THAT(behind_a_copy(1), AllAre("too early: reads 4 bytes"));
  EXPECT_THAT(behind_a_copy(2), IsEmpty());
  EXPECT_THAT(behind_a_copy(1, 1), IsEmpty()) << "the launch between waited for the copy";
  EXPECT_THAT(Found("Early", grid, Ints(4), Ints(4), 1), IsEmpty()) << "what no kernel writes";
}

TEST_F(AccessCheckerTest, WhatIsTouchedOutsideOfEveryRangeIsFoundToTheByte) {
  EXPECT_THAT(Found("Copy", kTwoWarps, Ints(64), Ints(64), 64, 0), IsEmpty());
  EXPECT_THAT(Found("Copy", kTwoWarps, Ints(64), Ints(64), 64, 1),
              AllOf(SizeIs(3), Each(HasSubstr("+ 256, which ends at 256"))));
  EXPECT_THAT(Found("Copy", kTwoWarps, Ints(64), Ints(63), 64, 0),
              AllOf(SizeIs(3), Each(HasSubstr("thread 63: out of bounds: writes"))));
  EXPECT_THAT(Found("ReadShared", {.threads = 1, .shared_bytes = 64}, Ints(1), 16),
              AllAre("out of bounds: reads 4 bytes at shared memory + 64"));
  EXPECT_THAT(Found("Own", kTwoWarps, Ints(64), 3), IsEmpty()) << "a thread's own stack";
  const auto* const bytes = reinterpret_cast<const char*>(Ints(4));
  EXPECT_THAT(Found("Wide", {}, bytes, reinterpret_cast<long long*>(Ints(2))), IsEmpty());
  EXPECT_THAT(Found("Wide", {}, bytes + 8, reinterpret_cast<long long*>(Ints(1))),
              AllAre("out of bounds: writes 8 bytes"));
}

TEST_F(AccessCheckerTest, WhatIsNotAlignedIsFoundUnlessItIsAStructOfSmallerParts) {
  const auto* const bytes = reinterpret_cast<const char*>(Ints(4));
  EXPECT_THAT(Found("Wide", {}, bytes + 4, reinterpret_cast<long long*>(Ints(2))),
              AllAre("misaligned: reads 8 bytes at allocation 0 + 4"));
  EXPECT_THAT(Found("Structs", {.threads = 8}, Ints(24), Ints(17) + 1, Ints(24), Ints(17) + 1),
              IsEmpty());
}

TEST_F(AccessCheckerTest, WhatNobodyWroteIsNotToBeRead) {
  EXPECT_THAT(Found("Copy", kTwoWarps, Ints(64, false), Ints(64, false), 64, 0),
              AllOf(SizeIs(3 * 64), Each(HasSubstr("not written: reads 4 bytes at allocation"))));
  EXPECT_THAT(Found("Count", {}, Ints(1, false), 0), AllAre("not written: updates atomically"));
  EXPECT_THAT(Found("ReadShared", {.threads = 1, .shared_bytes = 64}, Ints(1), 3),
              AllAre("not written: reads 4 bytes at shared memory + 12"));
  EXPECT_THAT(Found("WriteByFirstBlock", {.threads = 32, .shared_bytes = 128}, Ints(32)),
              IsEmpty());
  EXPECT_THAT(Found("WriteByFirstBlock", kTwoBlocks, Ints(64)), AllAre("block (1, 0), thread"));
}

TEST_F(AccessCheckerTest, WhatAKernelWroteTheNextMayReadAndWhatIsForgottenNobody) {
  std::vector<int> from(64, 1), middle(64), to(64);
  AccessChecker checker;
  GridRunner runner(3);
  runner.set_observer(&checker);
  const auto copy = [&](std::vector<int>& source, std::vector<int>& dest) {
    const size_t before = checker.findings().size();
    int *a = source.data(), *b = dest.data(), n = 64, offset = 0;
    void* pointers[] = {&a, &b, &n, &offset};
    EXPECT_TRUE(runner.Run(Kernels(), *Kernels().Find("Copy"), {.threads = 64}, pointers).ok());
    return checker.findings().size() - before;
  };
  for (auto* ints : {&from, &middle, &to}) checker.Allow(ints->data(), 256, false);
  checker.Wrote(from.data(), 128);
  EXPECT_EQ(copy(from, middle), 32u) << "half of it";
  EXPECT_EQ(copy(middle, to), 0u);
  checker.Allow(middle.data(), 128, false);
  EXPECT_EQ(copy(middle, to), 0u) << "a range allowed again is as it was";
  checker.Forget(middle.data());
  EXPECT_EQ(copy(middle, to), 0u) << "it was allowed twice";
  checker.Forget(middle.data());
  EXPECT_EQ(copy(middle, to), 64u);
}

TEST_F(AccessCheckerTest, LargeRangesCostNothingUntilTheyAreTouched) {
  AccessChecker checker;
  const auto address = [](uintptr_t at) { return reinterpret_cast<const void*>(at); };
  checker.Allow(address(uintptr_t{1} << 44), size_t{1} << 40, false);
  checker.Wrote(address((uintptr_t{1} << 44) + 64), size_t{1} << 39);
  RunningThread thread;
  const auto read = [&](uintptr_t offset) {
    const size_t before = checker.findings().size();
    checker.Accessed(thread, address((uintptr_t{1} << 44) + offset), 4, kRead);
    return checker.findings().size() - before;
  };
  GridRunner runner(1);
  runner.set_observer(&checker);
  int to = 0, *pointer = &to;
  void* pointers[] = {&pointer};
  ASSERT_TRUE(runner.Run(Kernels(), *Kernels().Find("Same"), {}, pointers).ok());
  EXPECT_EQ(checker.findings().size(), 1u);
  EXPECT_EQ(read(0), 1u);
  EXPECT_EQ(read(64), 0u);
  EXPECT_EQ(read(size_t{1} << 38), 0u);
  EXPECT_EQ(read((size_t{1} << 39) + 64), 1u);
  EXPECT_EQ(read((size_t{1} << 40) - 4), 1u);
  EXPECT_THAT(checker.findings(), Each(AnyOf(HasSubstr("not written"), StartsWith("Same"))));
}

TEST_F(AccessCheckerTest, FindingsAreSoManyAtMost) {
  AccessChecker checker;
  GridRunner runner(1);
  runner.set_observer(&checker);
  std::vector<int> ints(512);
  int* to = ints.data();
  int at = 0;
  void* pointers[] = {&to, &at};
  ASSERT_TRUE(runner.Run(Kernels(), *Kernels().Find("Own"), {.threads = 512}, pointers).ok());
  EXPECT_THAT(checker.findings(), SizeIs(AccessChecker::kMostFindings));
}

TEST_F(AccessCheckerTest, AsynchronousCopiesAreMadeWhenTheyAreWaitedFor) {
  const Grid grid = {.threads = 64, .shared_bytes = 768};
  int *const from = Ints(192), *const to = Ints(64);
  const auto found = [&](int all_but, int use, int where, int by) {
    return Found("Ahead", grid, static_cast<const int*>(from), to, all_but, use, where, by);
  };
  for (int use = 0; use < 3; ++use) {
    EXPECT_THAT(found(2 - use, use, kNowhere, 0), IsEmpty()) << "its own, after the wait";
    EXPECT_THAT(found(2 - use, use, kBlock, 33), IsEmpty());
    EXPECT_THAT(found(0, use, kBlock, 33), IsEmpty());
    EXPECT_THAT(found(2 - use, use, kNowhere, 33), Not(IsEmpty())) << "others', without a barrier";
    EXPECT_THAT(found(-1, use, kBlock, 0), AllAre("copy under way")) << "no wait at all";
    EXPECT_THAT(found(3 - use, use, kBlock, 33), AllAre("copy under way")) << "one too few";
    EXPECT_THAT(found(3 - use, use, kNowhere, 0), AllAre("copy under way"));
  }
}

TEST_F(AccessCheckerTest, WhoWaitsForArrivalsKnowsWhatCameBeforeThem) {
  EXPECT_THAT(Found("Arrivals", kTwoWarps, Ints(64), Ints(64), 1, 0), IsEmpty());
  EXPECT_THAT(Found("Arrivals", kTwoWarps, Ints(64), Ints(64), 0, 0), Not(IsEmpty()));
}

// What a thread wrote is not among its copies: an arrival that waits for these does not show it.
TEST_F(AccessCheckerTest, WhoWaitsForArrivalsWithCopiesKnowsOfTheCopiesAlone) {
  const auto found = Found("Arrivals", kTwoWarps, Ints(64), Ints(64), 1, 1);
  EXPECT_THAT(found, AllAre("race: reads 4 bytes at shared memory + "));
  EXPECT_EQ(found.size(), 3u * 32)
      << "by each of three seeds, what each thread of odd number wrote";
}

TEST_F(AccessCheckerTest, AsynchronousCopiesGoWhereNobodyReadsAnyMore) {
  const int* const from = Ints(64);
  EXPECT_THAT(Found("Over", kTwoWarps, from, Ints(64), int{kBlock}), IsEmpty());
  EXPECT_THAT(Found("Over", kTwoWarps, from, Ints(64), int{kNowhere}), Not(IsEmpty()));
  EXPECT_THAT(Found("Over", kTwoWarps, from, Ints(64), int{kWarpBarrier}), Not(IsEmpty()));
}

TEST_F(AccessCheckerTest, WhatIsCopiedIsNotWrittenBeforeTheWait) {
  for (const int write : {0, 2}) {
    EXPECT_THAT(Found("Under", kTwoWarps, Ints(64), Ints(64), write), IsEmpty());
  }
  EXPECT_THAT(Found("Under", kTwoWarps, Ints(64), Ints(64), 1),
              AllOf(SizeIs(3 * 64), Each(HasSubstr("copy under way: waits for its copy of"))));
}

TEST_F(AccessCheckerTest, AsynchronousCopiesHaveBoundsAndAlignment) {
  const Grid grid = {.shared_bytes = 16}, less = {.shared_bytes = 12};
  alignas(16) static char from[48] = {};
  Allow(from, sizeof from, true);
  const char* const source = from;
  EXPECT_THAT(Found("WideCopy", grid, source + 16, Ints(1)), IsEmpty());
  EXPECT_THAT(Found("WideCopy", grid, source + 4, Ints(1)), Contains(HasSubstr("misaligned")));
  EXPECT_THAT(Found("WideCopy", less, source, Ints(1)), Contains(HasSubstr("out of bounds")));
  EXPECT_THAT(Found("WideCopy", grid, source + 48, Ints(1)), Contains(HasSubstr("out of bounds")));
}

}  // namespace
}  // namespace cellbatch::emulator
