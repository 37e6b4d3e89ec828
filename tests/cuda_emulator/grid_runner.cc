#include "tests/cuda_emulator/grid_runner.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch::emulator {
namespace {

constexpr size_t kStackBytes = size_t{128} << 10;
constexpr unsigned kFlushDenormals = 0x8040;  // FTZ and DAZ of MXCSR
constexpr unsigned kAllLanes = 0xffffffffu;

enum class State : uint8_t { kReady, kAtBlockBarrier, kAtWarpBarrier, kDone };

class DenormalsFlushed {
 public:
  DenormalsFlushed() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushDenormals); }
  ~DenormalsFlushed() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

// Kernels know of no runner: the one that runs on this thread.
thread_local GridRunner* current = nullptr;

}  // namespace

// One thread of a block, and of the next block, and of the next launch.
class GridRunner::Fibre {
 public:
  explicit Fibre(GridRunner& runner)
      : inside_(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes),
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

  State state = State::kReady;
  unsigned lanes = 0;  // that kAtWarpBarrier waits for

 private:
  bool ending_ = false;
  boost::context::fiber outside_, inside_;  // who resumed it; itself
};

struct RunnerHooks {
  static void SyncBlock() {
    Here().state = State::kAtBlockBarrier;
    current->GiveWay();
  }
  static void SyncWarp(unsigned lanes) {
    Here().state = State::kAtWarpBarrier;
    Here().lanes = lanes;
    current->GiveWay();
  }
  // Everybody gives, waits, takes, and waits until all have taken.
  static unsigned long long Shuffle(unsigned lanes, unsigned long long value, int from) {
    const unsigned thread = current->running_.thread, first = thread / kWarp * kWarp;
    current->lanes_[thread] = value;
    SyncWarp(lanes);
    const unsigned source = first + static_cast<unsigned>(from);
    const bool given = source < current->threads_ && (lanes >> from & 1) != 0;
    if (!given) {
      current->Find(
          fmt::format("a shuffle of lanes {:#x} reads lane {}, which gives nothing", lanes, from));
    }
    const unsigned long long taken = given ? current->lanes_[source] : value;
    SyncWarp(lanes);
    return taken;
  }
  static void Fence() {}
  static void Access(const void* at, size_t bytes, int kind) {
    if (current->observer_ != nullptr) {
      current->observer_->Accessed(current->running_, at, bytes, kind);
    }
  }
  static GridRunner::Fibre& Here() { return *current->fibres_[current->running_.thread]; }

  static constexpr KernelHooks kHooks = {SyncBlock, SyncWarp, Shuffle, Fence, Access};
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
      grid.threads > kMostThreads || grid.shared_bytes > kMostSharedBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: a grid of {} x {} blocks of {} threads and {} bytes", function.name,
                    grid.x, grid.y, grid.threads, grid.shared_bytes));
  }
  const DenormalsFlushed flushed;
  GridRunner* const before = std::exchange(current, this);
  object.set_hooks(&RunnerHooks::kHooks);
  object_ = &object;
  function_ = &function;
  arguments_ = arguments;
  threads_ = grid.threads;
  while (fibres_.size() < grid.threads) fibres_.push_back(std::make_unique<Fibre>(*this));
  *object.index(2) = {grid.threads, 1, 1};
  *object.index(3) = {grid.x, grid.y, 1};
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
  for (unsigned t = 0; t < threads_; ++t) fibres_[t]->state = State::kReady;
  std::vector<unsigned> order(threads_);
  std::iota(order.begin(), order.end(), 0);
  while (RunRound(order) || ReleaseBarriers()) {
  }
}

// Everybody who can run, until they wait. False: nobody could.
bool GridRunner::RunRound(std::vector<unsigned>& order) {
  std::shuffle(order.begin(), order.end(), random_);
  bool any = false;
  for (const unsigned t : order) {
    if (fibres_[t]->state != State::kReady) continue;
    any = true;
    running_.thread = t;
    *object_->index(0) = {t, 0, 0};
    fibres_[t]->Resume();
  }
  return any;
}

// Nobody can run: whose barrier is complete? False: all are done.
bool GridRunner::ReleaseBarriers() {
  bool released = false;
  for (unsigned warp = 0; warp * kWarp < threads_; ++warp) released |= ReleaseWarp(warp);
  if (released) return true;
  unsigned waiting = 0, done = 0;
  for (unsigned t = 0; t < threads_; ++t) {
    waiting += fibres_[t]->state == State::kAtBlockBarrier ? 1 : 0;
    done += fibres_[t]->state == State::kDone ? 1 : 0;
  }
  if (done == threads_) return false;
  if (waiting < threads_) {
    Find(
        fmt::format("of {} threads {} wait at a barrier of the block and {} have left; the others "
                    "wait for their warps",
                    threads_, waiting, done));
  }
  ReleaseBlock();
  return true;
}

void GridRunner::ReleaseBlock() {
  ++running_.epoch;
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
  bool released = false;
  for (unsigned lane = 0; lane < count; ++lane) {
    Fibre& fibre = *fibres_[first + lane];
    if ((waiting >> lane & 1) == 0 || ((fibre.lanes & there) & ~waiting) != 0) continue;
    fibre.state = State::kReady;
    released = true;
  }
  return released;
}

}  // namespace cellbatch::emulator
