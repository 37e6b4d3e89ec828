#include "tests/cuda_emulator/grid_runner.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch::emulator {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kFlushDenormals = 0x8040;  // FTZ and DAZ of MXCSR
constexpr unsigned kAllLanes = 0xffffffffu;

enum class State : uint8_t { kReady, kAtBlockBarrier, kAtWarpBarrier, kAtArrivals, kDone };

class DenormalsFlushed {
 public:
  DenormalsFlushed() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushDenormals); }
  ~DenormalsFlushed() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

// A barrier in shared memory: the parity of what is waited for, arrivals in all, those that are missing.
using BarrierWord = unsigned long long;
constexpr BarrierWord kArrivals = 0xffff;
unsigned ParityOf(BarrierWord word) { return static_cast<unsigned>(word >> 63); }
BarrierWord Barrier(BarrierWord parity, BarrierWord arrivals, BarrierWord missing) {
  return parity << 63 | arrivals << 32 | missing;
}

struct AsyncCopy {
  void* to;
  size_t room;
  const void* from;
  size_t bytes;
};

// A fibre's stack, and where it lies.
struct NotedStack {
  boost::context::stack_context allocate() {
    const boost::context::stack_context stack = inner.allocate();
    *to = reinterpret_cast<uintptr_t>(stack.sp);
    *from = *to - stack.size;
    return stack;
  }
  void deallocate(boost::context::stack_context& stack) { inner.deallocate(stack); }

  boost::context::fixedsize_stack inner{kStackBytes};
  uintptr_t* from;
  uintptr_t* to;
};

// Kernels know of no runner: the one that runs on this thread.
thread_local GridRunner* current = nullptr;

}  // namespace

// One thread of a block, and of the next block, and of the next launch.
class GridRunner::Fibre {
 public:
  explicit Fibre(GridRunner& runner)
      : inside_(std::allocator_arg, NotedStack{.from = &stack_from, .to = &stack_to},
                [this, &runner](boost::context::fiber&& outside) {
                  outside_ = std::move(outside);
                  while (!ending_) {
                    runner.function_->launch(const_cast<void**>(runner.arguments_));
                    state = State::kDone;
                    GiveWay();
                  }
                  return std::move(outside_);
                }) {}
  // REQUIRES: it is done, or never began.
  ~Fibre() {
    ending_ = true;
    if (outside_) inside_ = std::move(inside_).resume();
  }
  void Resume() { inside_ = std::move(inside_).resume(); }
  void GiveWay() { outside_ = std::move(outside_).resume(); }
  // Another thread begins on it.
  void Begin() {
    state = State::kReady;
    waited = false;
    copies.clear();
    groups.clear();
    arrivals.clear();
  }

  uintptr_t stack_from = 0, stack_to = 0;
  State state = State::kReady;
  bool waited = false;    // for the launch before
  unsigned lanes = 0;     // that kAtWarpBarrier waits for
  bool shuffles = false;  // and waits for values, not for memory
  // What kAtArrivals waits for.
  bool Arrived() const { return ParityOf(*barrier) != parity; }
  BarrierWord* barrier = nullptr;
  unsigned parity = 0;
  // Started and not made; how many of them there were when each group was closed.
  std::vector<AsyncCopy> copies;
  std::vector<size_t> groups;
  // Of how many of them it arrives where, when they are made.
  std::deque<std::pair<size_t, BarrierWord*>> arrivals;

 private:
  bool ending_ = false;
  boost::context::fiber outside_, inside_;  // who resumed it; itself
};

struct RunnerHooks {
  static void SyncBlock() {
    Here().state = State::kAtBlockBarrier;
    current->GiveWay();
  }
  static void SyncWarp(unsigned lanes) { WaitForLanes(lanes, false); }
  static void WaitForLanes(unsigned lanes, bool shuffles) {
    Here().state = State::kAtWarpBarrier;
    Here().lanes = lanes;
    Here().shuffles = shuffles;
    current->GiveWay();
  }
  // Everybody gives, waits, takes, and waits until all have taken.
  static unsigned long long Shuffle(unsigned lanes, unsigned long long value, int from) {
    const unsigned thread = current->running_.thread, first = thread / kWarp * kWarp;
    current->lanes_[thread] = value;
    WaitForLanes(lanes, true);
    const unsigned source = first + static_cast<unsigned>(from);
    const bool given = source < current->threads_ && (lanes >> from & 1) != 0;
    if (!given) {
      current->Find(
          fmt::format("a shuffle of lanes {:#x} reads lane {}, which gives nothing", lanes, from));
    }
    const unsigned long long taken = given ? current->lanes_[source] : value;
    WaitForLanes(lanes, true);
    return taken;
  }
  // Likewise of the whole warp: who has left gives nothing, and is found.
  static void Gather(const void* mine, void* all, size_t bytes) {
    const unsigned thread = current->running_.thread, first = thread / kWarp * kWarp;
    current->lanes_[thread] = reinterpret_cast<uintptr_t>(mine);
    WaitForLanes(kAllLanes, true);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const unsigned source = first + lane;
      const bool given =
          source < current->threads_ && current->fibres_[source]->state != State::kDone;
      if (!given) {
        current->Find(fmt::format("a warp's instruction lacks lane {}", lane));
        std::memset(static_cast<char*>(all) + lane * bytes, 0xff, bytes);
        continue;
      }
      std::memcpy(static_cast<char*>(all) + lane * bytes,
                  reinterpret_cast<const void*>(current->lanes_[source]), bytes);
    }
    WaitForLanes(kAllLanes, true);
  }
  static void Fence() {
    if (current->observer_ != nullptr) current->observer_->Fence(current->running_);
  }
  static void WaitForGrids() {
    Here().waited = true;
    current->running_.early = false;
  }
  static void Access(const void* at, size_t bytes, int kind) {
    if (current->observer_ != nullptr) {
      current->observer_->Accessed(current->running_, at, bytes, kind);
    }
  }
  static void CopyAsync(void* to, size_t room, const void* from, size_t bytes) {
    if (current->observer_ != nullptr) {
      current->observer_->CopyStarts(current->running_, to, room, from, bytes);
    }
    Here().copies.push_back({to, room, from, bytes});
  }
  static void CloseGroup() { Here().groups.push_back(Here().copies.size()); }
  static void WaitForGroups(int all_but) {
    std::vector<size_t>& groups = Here().groups;
    const auto left = static_cast<size_t>(all_but);
    if (groups.size() <= left) return;
    const size_t passed = groups.size() - left, made = groups[passed - 1];
    groups.erase(groups.begin(), groups.begin() + static_cast<ptrdiff_t>(passed));
    MakeCopies(made);
  }
  // The first ones of the thread that runs.
  static void MakeCopies(size_t count) {
    std::vector<AsyncCopy>& copies = Here().copies;
    for (size_t c = 0; c < count; ++c) {
      const auto& [to, room, from, bytes] = copies[c];
      std::memcpy(to, from, bytes);
      std::memset(static_cast<char*>(to) + bytes, 0, room - bytes);
      if (current->observer_ == nullptr) continue;
      current->observer_->CopyEnds(current->running_, to, room, from, bytes);
    }
    copies.erase(copies.begin(), copies.begin() + static_cast<ptrdiff_t>(count));
    for (size_t& group : Here().groups) group -= std::min(group, count);
    for (auto& arrival : Here().arrivals) arrival.first -= std::min(arrival.first, count);
  }

  static void InitBarrier(BarrierWord* barrier, int arrivals) {
    Access(barrier, sizeof *barrier, kWrite);
    const auto all = static_cast<BarrierWord>(arrivals);
    *barrier = Barrier(0, all, all);
  }
  static void Arrive(BarrierWord* barrier) {
    Access(barrier, sizeof *barrier, kAtomicUpdate);
    const BarrierWord all = *barrier >> 32 & kArrivals, missing = *barrier & kArrivals;
    const BarrierWord parity = ParityOf(*barrier);
    *barrier = missing > 1 ? Barrier(parity, all, missing - 1) : Barrier(parity ^ 1, all, all);
    if (current->observer_ != nullptr) {
      current->observer_->Arrives(current->running_, barrier, missing <= 1);
    }
  }
  static void ArriveWhenCopied(BarrierWord* barrier) {
    Here().arrivals.emplace_back(Here().copies.size(), barrier);
  }
  // The first of those, of the thread that runs.
  static void ArriveWithCopies() {
    const auto [copies, barrier] = Here().arrivals.front();
    Here().arrivals.pop_front();
    MakeCopies(copies);
    Arrive(barrier);
  }
  static void WaitForArrivals(BarrierWord* barrier, unsigned parity) {
    Here().barrier = barrier;
    Here().parity = parity;
    if (!Here().Arrived()) {
      Here().state = State::kAtArrivals;
      current->GiveWay();
    }
    Access(barrier, sizeof *barrier, kAtomicLoad);
    if (current->observer_ != nullptr) current->observer_->Waited(current->running_, barrier);
  }
  static GridRunner::Fibre& Here() { return *current->fibres_[current->running_.thread]; }

  static constexpr KernelHooks kHooks = {
      SyncBlock,   SyncWarp,   Shuffle,          Fence,          Access,
      CopyAsync,   CloseGroup, WaitForGroups,    Gather,         WaitForGrids,
      InitBarrier, Arrive,     ArriveWhenCopied, WaitForArrivals};
  // Where nobody looks: half of a kernel's time is telling of its accesses.
  static constexpr KernelHooks kUnwatched = {
      SyncBlock,   SyncWarp,   Shuffle,          Fence,          nullptr,
      CopyAsync,   CloseGroup, WaitForGroups,    Gather,         WaitForGrids,
      InitBarrier, Arrive,     ArriveWhenCopied, WaitForArrivals};
};

GridRunner::GridRunner(uint64_t seed) : random_(seed), lanes_(kMostThreads) {}
GridRunner::~GridRunner() = default;

void GridRunner::Find(std::string what) {
  if (findings_.size() == kMostFindings) return;
  findings_.push_back(fmt::format("{}, block ({}, {}), thread {}: {}", function_->name,
                                  running_.block_x, running_.block_y, running_.thread, what));
}

void GridRunner::GiveWay() { fibres_[running_.thread]->GiveWay(); }

absl::Status GridRunner::Run(const KernelObject& object, const KernelFunction& function,
                             const Grid& grid, void* const* arguments) {
  if (grid.x < 1 || grid.y < 1 || grid.y > 65535 || grid.threads < 1 ||
      grid.threads > kMostThreads || grid.shared_bytes > kMostSharedBytes ||
      grid.y % function.cluster_y != 0) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a grid of {} x {} blocks of {} threads and {} bytes, in clusters of {}", function.name,
        grid.x, grid.y, grid.threads, grid.shared_bytes, function.cluster_y));
  }
  const DenormalsFlushed flushed;
  GridRunner* const before = std::exchange(current, this);
  object.set_hooks(observer_ != nullptr ? &RunnerHooks::kHooks : &RunnerHooks::kUnwatched);
  object_ = &object;
  function_ = &function;
  arguments_ = arguments;
  threads_ = grid.threads;
  early_ = grid.early;
  while (fibres_.size() < grid.threads) fibres_.push_back(std::make_unique<Fibre>(*this));
  *object.index(2) = {grid.threads, 1, 1};
  *object.index(3) = {grid.x, grid.y, 1};
  if (observer_ != nullptr) observer_->LaunchBegins(object, function, grid);
  std::vector<uint64_t> blocks(static_cast<size_t>(grid.x) * grid.y);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), random_);
  for (const uint64_t block : blocks) {
    RunBlock(grid, static_cast<unsigned>(block % grid.x), static_cast<unsigned>(block / grid.x));
  }
  current = before;
  return absl::OkStatus();
}

void GridRunner::RunBlock(const Grid& grid, unsigned x, unsigned y) {
  running_ = RunningThread();
  running_.block_x = x;
  running_.block_y = y;
  *object_->index(1) = {x, y, 0};
  // Nobody may count on what a block finds there.
  std::memset(object_->shared_memory(), static_cast<int>(random_() & 0xff), grid.shared_bytes);
  for (unsigned t = 0; t < threads_; ++t) fibres_[t]->Begin();
  if (observer_ != nullptr) observer_->BlockBegins(running_);
  std::vector<unsigned> order(threads_);
  std::iota(order.begin(), order.end(), 0);
  while (RunRound(order) || ReleaseBarriers()) {
  }
  const auto waited = [&](unsigned t) { return fibres_[t]->waited; };
  if (early_ && std::none_of(order.begin(), order.end(), waited)) {
    Find("never waits: it may begin before the launch before it has ended");
  }
}

// Everybody who can run, until they wait. False: nobody could.
bool GridRunner::RunRound(std::vector<unsigned>& order) {
  std::shuffle(order.begin(), order.end(), random_);
  bool any = false;
  for (const unsigned t : order) {
    if (fibres_[t]->state == State::kAtArrivals && fibres_[t]->Arrived()) {
      fibres_[t]->state = State::kReady;
    }
    if (fibres_[t]->state != State::kReady) continue;
    any = true;
    Enter(t);
    fibres_[t]->Resume();
  }
  return any;
}

void GridRunner::Enter(unsigned thread) {
  running_.thread = thread;
  running_.stack_from = fibres_[thread]->stack_from;
  running_.stack_to = fibres_[thread]->stack_to;
  running_.early = early_ && !fibres_[thread]->waited;
  *object_->index(0) = {thread, 0, 0};
}

// Nobody can run: whose barrier is complete? False: all are done.
bool GridRunner::ReleaseBarriers() {
  bool released = false;
  for (unsigned warp = 0; warp * kWarp < threads_; ++warp) released |= ReleaseWarp(warp);
  if (released || ArriveWithCopies()) return true;
  unsigned waiting = 0, done = 0, for_arrivals = 0;
  for (unsigned t = 0; t < threads_; ++t) {
    waiting += fibres_[t]->state == State::kAtBlockBarrier ? 1 : 0;
    for_arrivals += fibres_[t]->state == State::kAtArrivals ? 1 : 0;
    done += fibres_[t]->state == State::kDone ? 1 : 0;
  }
  if (done == threads_) return false;
  if (waiting < threads_) {
    Find(
        fmt::format("of {} threads {} wait at a barrier of the block and {} have left; {} wait for "
                    "arrivals that never come, the others for their warps",
                    threads_, waiting, done, for_arrivals));
  }
  ReleaseBlock();
  return true;
}

// Nobody can run: what somebody has started to copy comes at last. False: nothing is on its way.
bool GridRunner::ArriveWithCopies() {
  std::vector<unsigned> have;
  for (unsigned t = 0; t < threads_; ++t) {
    if (!fibres_[t]->arrivals.empty()) have.push_back(t);
  }
  if (have.empty()) return false;
  Enter(have[random_() % have.size()]);
  RunnerHooks::ArriveWithCopies();
  return true;
}

void GridRunner::ReleaseBlock() {
  ++running_.epoch;
  if (observer_ != nullptr) observer_->BlockBarrier();
  for (unsigned t = 0; t < threads_; ++t) {
    if (fibres_[t]->state != State::kDone) fibres_[t]->state = State::kReady;
  }
}

// Lanes that wait for each other.
bool GridRunner::ReleaseWarp(unsigned warp) {
  const unsigned first = warp * kWarp, count = std::min<unsigned>(kWarp, threads_ - first);
  const unsigned there = count == kWarp ? kAllLanes : (1u << count) - 1;
  unsigned waiting = 0;
  for (unsigned lane = 0; lane < count; ++lane) {
    if (fibres_[first + lane]->state == State::kAtWarpBarrier) waiting |= 1u << lane;
  }
  unsigned released = 0;
  for (unsigned lane = 0; lane < count; ++lane) {
    Fibre& fibre = *fibres_[first + lane];
    if ((waiting >> lane & 1) == 0 || ((fibre.lanes & there) & ~waiting) != 0) continue;
    fibre.state = State::kReady;
    released |= 1u << lane;
  }
  if (observer_ != nullptr && released != 0) TellOfWarp(warp, released);
  return released != 0;
}

// Lanes that waited for the same lanes have met at one barrier.
void GridRunner::TellOfWarp(unsigned warp, unsigned released) {
  const unsigned first = warp * kWarp;
  while (released != 0) {
    const Fibre& one = *fibres_[first + static_cast<unsigned>(std::countr_zero(released))];
    unsigned met = 0;
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      if ((released >> lane & 1) == 0) continue;
      const Fibre& other = *fibres_[first + lane];
      if (other.lanes == one.lanes && other.shuffles == one.shuffles) met |= 1u << lane;
    }
    if (!one.shuffles) observer_->WarpBarrier(first, met);
    released &= ~met;
  }
}

}  // namespace cellbatch::emulator
