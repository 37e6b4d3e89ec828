#include "tests/cuda_emulator/grid_runner.h"

#include <fmt/format.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "tests/cuda_emulator/barrier_word.h"
#include "tests/cuda_emulator/grid_fibre.h"

namespace cellbatch::emulator {
namespace {

constexpr unsigned kFlushDenormals = 0x8040;  // FTZ and DAZ of MXCSR
constexpr unsigned kAllLanes = 0xffffffffu;

class DenormalsFlushed {
 public:
  DenormalsFlushed() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushDenormals); }
  ~DenormalsFlushed() { _mm_setcsr(before_); }

 private:
  const unsigned before_;
};

// Kernels know of no runner: the one that runs on this thread. Asked at every access, so at a place that needs no call to be found,
// also in a library that is opened late.
__attribute__((tls_model("initial-exec"))) thread_local GridRunner* current = nullptr;

}  // namespace

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
    const unsigned thread = current->running_.slot, first = thread / kWarp * kWarp;
    current->lanes_[thread] = value;
    WaitForLanes(lanes, true);
    const unsigned source = first + static_cast<unsigned>(from);
    const bool given = source < current->slots_ && (lanes >> from & 1) != 0;
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
    const unsigned thread = current->running_.slot, first = thread / kWarp * kWarp;
    current->lanes_[thread] = reinterpret_cast<uintptr_t>(mine);
    WaitForLanes(kAllLanes, true);
    for (unsigned lane = 0; lane < kWarp; ++lane) {
      const unsigned source = first + lane;
      const bool given =
          source < current->slots_ && current->fibres_[source]->state != State::kDone;
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
    GridRunner& runner = *current;
    if (runner.observer_ != nullptr) runner.observer_->Accessed(runner.running_, at, bytes, kind);
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

  static void InitBarrier(BarrierWord::Bits* barrier, int arrivals) {
    if (current->observer_ != nullptr) {
      current->observer_->BarrierBegins(current->running_, barrier);
    }
    const auto all = static_cast<unsigned>(arrivals);
    *barrier = BarrierWord{.arrivals = all, .missing = all}.bits();
  }
  static void Arrive(BarrierWord::Bits* barrier) { ArriveAndExpect(barrier, 0); }
  static void ArriveAndExpect(BarrierWord::Bits* barrier, int bytes) {
    ArriveThere(current->running_, barrier, bytes);
  }
  // At that place of another block, if it is still there.
  static void ArriveAt(BarrierWord::Bits* barrier, int block) {
    RunningThread there = current->running_;
    auto* const at = reinterpret_cast<BarrierWord::Bits*>(OfBlock(block, barrier));
    if (at == nullptr) return;
    there.shared_from =
        reinterpret_cast<uintptr_t>(current->SharedOf(static_cast<unsigned>(block)));
    ArriveThere(there, at, 0);
  }
  static void ArriveThere(const RunningThread& thread, BarrierWord::Bits* barrier, int bytes) {
    const auto last = CountArrival(thread, barrier, bytes);
    if (!last.has_value() || current->observer_ == nullptr) return;
    current->observer_->Arrives(thread, barrier, *last);
  }
  // Whether it was the last that is waited for; none: it may not arrive, as is told.
  static std::optional<bool> CountArrival(const RunningThread& thread, BarrierWord::Bits* barrier,
                                          int bytes) {
    if (current->observer_ != nullptr) {
      current->observer_->Accessed(thread, barrier, sizeof *barrier, kAtomicUpdate);
    }
    BarrierWord word = BarrierWord::Of(*barrier);
    if (word.missing == 0 || bytes % kBulkBytes != 0) {
      current->Find("arrives at a barrier where nobody is missing, or announces parts of 16 bytes");
      return std::nullopt;
    }
    --word.missing;
    word.announced += bytes / kBulkBytes;
    const bool last = word.Completes();
    *barrier = word.bits();
    return last;
  }
  // The same place in the shared memory of another block; null: it has left.
  static std::byte* OfBlock(int block, void* mine) {
    const auto number = static_cast<unsigned>(block);
    if (number >= current->blocks_ || !current->IsThere(number)) {
      current->Find(
          fmt::format("touches shared memory of block {} of its cluster, which is gone", block));
      return nullptr;
    }
    const auto offset = reinterpret_cast<uintptr_t>(mine) - current->running_.shared_from;
    return current->SharedOf(number) + offset;
  }
  static void ArriveWhenCopied(BarrierWord::Bits* barrier) {
    Here().arrivals.emplace_back(Here().copies.size(), barrier);
  }
  // The first of those, of the thread that runs. It tells of the copies alone: what else the thread wrote it does not show.
  static void ArriveWithCopies() {
    const auto [count, barrier] = Here().arrivals.front();
    Here().arrivals.pop_front();
    const std::vector<AsyncCopy>& started = Here().copies;
    const std::vector<AsyncCopy> copies(started.begin(),
                                        started.begin() + static_cast<ptrdiff_t>(count));
    MakeCopies(count);
    const auto last = CountArrival(current->running_, barrier, 0);
    if (!last.has_value() || current->observer_ == nullptr) return;
    for (const AsyncCopy& copy : copies) {
      current->observer_->CopyIsTold(current->running_, copy.to, copy.room, barrier);
    }
    current->observer_->CopiesArrive(barrier, *last);
  }
  static void WaitForArrivals(BarrierWord::Bits* barrier, unsigned parity) {
    Here().barrier = barrier;
    Here().parity = parity;
    if (!Here().Arrived()) {
      Here().state = State::kAtArrivals;
      current->GiveWay();
    }
    Access(barrier, sizeof *barrier, kAtomicLoad);
    if (current->observer_ != nullptr) current->observer_->Waited(current->running_, barrier);
  }
  static void SyncCluster() {
    Here().state = State::kAtClusterBarrier;
    current->GiveWay();
  }
  static int BlockOfCluster() {
    return static_cast<int>(current->running_.slot / current->threads_);
  }
  static void BulkCopy(void* to, const void* from, int bytes, BarrierWord::Bits* barrier,
                       unsigned blocks) {
    for (int block = 0; blocks >> block != 0; ++block) {
      if ((blocks >> block & 1) == 0) continue;
      std::byte* const place = OfBlock(block, to);
      if (place == nullptr) continue;
      auto* const told = reinterpret_cast<BarrierWord::Bits*>(OfBlock(block, barrier));
      RunningThread by = current->running_;
      by.shared_from = reinterpret_cast<uintptr_t>(current->SharedOf(static_cast<unsigned>(block)));
      const auto size = static_cast<size_t>(bytes);
      if (current->observer_ != nullptr) current->observer_->BulkStarts(by, place, from, size);
      current->bulk_.push_back({by, place, from, size, told});
    }
  }
  static GridRunner::Fibre& Here() { return *current->fibres_[current->running_.slot]; }

  static constexpr KernelHooks kHooks = {
      SyncBlock,      SyncWarp,   Shuffle,          Fence,           Access,
      CopyAsync,      CloseGroup, WaitForGroups,    Gather,          WaitForGrids,
      InitBarrier,    Arrive,     ArriveWhenCopied, WaitForArrivals, SyncCluster,
      BlockOfCluster, ArriveAt,   ArriveAndExpect,  BulkCopy};
  // Where nobody looks: half of a kernel's time is telling of its accesses.
  static constexpr KernelHooks kUnwatched = {
      SyncBlock,      SyncWarp,   Shuffle,          Fence,           nullptr,
      CopyAsync,      CloseGroup, WaitForGroups,    Gather,          WaitForGrids,
      InitBarrier,    Arrive,     ArriveWhenCopied, WaitForArrivals, SyncCluster,
      BlockOfCluster, ArriveAt,   ArriveAndExpect,  BulkCopy};
};

GridRunner::GridRunner(uint64_t seed) : random_(seed), lanes_(kMostSlots) {}
GridRunner::~GridRunner() = default;

void GridRunner::Find(std::string what) {
  if (findings_.size() == kMostFindings) return;
  findings_.push_back(fmt::format("{}, block ({}, {}), thread {}: {}", function_->name,
                                  running_.block_x, running_.block_y, running_.thread, what));
}

void GridRunner::GiveWay() { fibres_[running_.slot]->GiveWay(); }

bool GridRunner::IsThere(unsigned block) const {
  for (unsigned t = block * threads_; t < (block + 1) * threads_; ++t) {
    if (fibres_[t]->state != State::kDone) return true;
  }
  return false;
}

std::byte* GridRunner::SharedOf(unsigned block) {
  constexpr uintptr_t kAligned = 1024;
  const uintptr_t at = reinterpret_cast<uintptr_t>(shared_.data()) + kAligned - 1;
  return reinterpret_cast<std::byte*>(at & ~(kAligned - 1)) + size_t{block} * kMostSharedBytes;
}

absl::Status GridRunner::Run(const KernelObject& object, const KernelFunction& function,
                             const Grid& grid, void* const* arguments) {
  if (grid.x < 1 || grid.y < 1 || grid.y > 65535 || grid.threads < 1 ||
      grid.threads > kMostThreads || grid.shared_bytes > kMostSharedBytes ||
      grid.y % function.cluster_y != 0 || function.cluster_y > kMostBlocks ||
      grid.threads * function.cluster_y > kMostClusterThreads ||
      (function.cluster_y > 1 && grid.threads % kWarp != 0)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: a grid of {} x {} blocks of {} threads and {} bytes, in clusters of {}", function.name,
        grid.x, grid.y, grid.threads, grid.shared_bytes, function.cluster_y));
  }
  const DenormalsFlushed flushed;
  if (observer_ != nullptr && object.watched() == Watched::kNo) {
    return absl::InvalidArgumentError("somebody looks at kernels that tell of nothing");
  }
  object.set_hooks(observer_ != nullptr ? &RunnerHooks::kHooks : &RunnerHooks::kUnwatched);
  GridRunner* const before = std::exchange(current, this);
  function_ = &function;
  arguments_ = arguments;
  shared_place_ = object.shared_place();
  threads_ = grid.threads;
  blocks_ = function.cluster_y;
  slots_ = threads_ * blocks_;
  early_ = grid.early;
  while (fibres_.size() < slots_) fibres_.push_back(std::make_unique<Fibre>(*this, fibres_.size()));
  shared_.resize(std::max(shared_.size(), size_t{blocks_} * kMostSharedBytes + 1024));
  thread_index_ = object.index(0);
  block_index_ = object.index(1);
  *object.index(2) = {grid.threads, 1, 1};
  *object.index(3) = {grid.x, grid.y, 1};
  if (observer_ != nullptr) observer_->LaunchBegins(object, function, grid);
  std::vector<uint64_t> clusters(static_cast<size_t>(grid.x) * grid.y / blocks_);
  std::iota(clusters.begin(), clusters.end(), 0);
  std::shuffle(clusters.begin(), clusters.end(), random_);
  for (const uint64_t cluster : clusters) {
    RunBlocks(grid, static_cast<unsigned>(cluster % grid.x),
              static_cast<unsigned>(cluster / grid.x) * blocks_);
  }
  current = before;
  return absl::OkStatus();
}

// A block, or those of a cluster.
void GridRunner::RunBlocks(const Grid& grid, unsigned x, unsigned first_y) {
  running_ = RunningThread();
  running_.block_x = x;
  running_.block_y = first_y_ = first_y;
  running_.shared_from = reinterpret_cast<uintptr_t>(SharedOf(0));
  // Nobody may count on what a block finds there.
  for (unsigned block = 0; block < blocks_; ++block) {
    std::memset(SharedOf(block), static_cast<int>(random_() & 0xff), grid.shared_bytes);
  }
  for (unsigned slot = 0; slot < slots_; ++slot) fibres_[slot]->Begin();
  if (observer_ != nullptr) observer_->BlocksBegin(running_);
  std::vector<unsigned> order(slots_);
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

void GridRunner::Enter(unsigned slot) {
  const unsigned block = slot / threads_, thread = slot - block * threads_;
  std::byte* const shared = SharedOf(block);
  running_.slot = slot;
  running_.thread = thread;
  running_.block_y = first_y_ + block;
  running_.shared_from = reinterpret_cast<uintptr_t>(shared);
  running_.stack_from = fibres_[slot]->stack_from;
  running_.stack_to = fibres_[slot]->stack_to;
  running_.early = early_ && !fibres_[slot]->waited;
  *shared_place_ = shared;
  *thread_index_ = {thread, 0, 0};
  *block_index_ = {running_.block_x, running_.block_y, 0};
}

// Nobody can run: whose barrier is complete? False: all are done.
bool GridRunner::ReleaseBarriers() {
  bool released = false;
  for (unsigned warp = 0; warp * kWarp < slots_; ++warp) released |= ReleaseWarp(warp);
  return released || CopiesCome() || ReleaseCluster() || ReleaseBlocks();
}

// Blocks all of whose threads wait for one another; or, if there is none, whoever is left: nobody else will come.
bool GridRunner::ReleaseBlocks() {
  std::vector<unsigned> complete, stuck;
  std::string what;
  for (unsigned block = 0; block < blocks_; ++block) {
    unsigned waiting = 0, done = 0, for_arrivals = 0;
    for (unsigned t = block * threads_; t < (block + 1) * threads_; ++t) {
      waiting += fibres_[t]->state == State::kAtBlockBarrier ? 1 : 0;
      for_arrivals += fibres_[t]->state == State::kAtArrivals ? 1 : 0;
      done += fibres_[t]->state == State::kDone ? 1 : 0;
    }
    if (waiting == threads_) complete.push_back(block);
    if (waiting == threads_ || done == threads_) continue;
    stuck.push_back(block);
    what = fmt::format(
        "of {} threads {} wait at a barrier of the block and {} have left; {} wait for arrivals "
        "that never come, the others for their warps{}",
        threads_, waiting, done, for_arrivals, blocks_ > 1 ? " or the cluster" : "");
  }
  for (const unsigned block : complete) GoOn(block, true);
  if (!complete.empty() || stuck.empty()) return !complete.empty();
  Find(what);
  for (const unsigned block : stuck) GoOn(block, true);
  return true;
}

// All threads of all blocks are at its barrier.
bool GridRunner::ReleaseCluster() {
  for (unsigned slot = 0; slot < slots_; ++slot) {
    if (fibres_[slot]->state != State::kAtClusterBarrier) return false;
  }
  if (observer_ != nullptr) observer_->ClusterBarrier();
  for (unsigned block = 0; block < blocks_; ++block) GoOn(block, false);
  return true;
}

void GridRunner::GoOn(unsigned block, bool at_its_barrier) {
  if (observer_ != nullptr && at_its_barrier) observer_->BlockBarrier(block);
  for (unsigned t = block * threads_; t < (block + 1) * threads_; ++t) {
    if (fibres_[t]->state != State::kDone) fibres_[t]->state = State::kReady;
  }
}

// Nobody can run: what somebody has started to copy comes at last. False: nothing is on its way.
bool GridRunner::CopiesCome() {
  std::vector<unsigned> have;
  for (unsigned slot = 0; slot < slots_; ++slot) {
    if (!fibres_[slot]->arrivals.empty()) have.push_back(slot);
  }
  const size_t all = have.size() + bulk_.size();
  if (all == 0) return false;
  const size_t drawn = random_() % all;
  if (drawn >= have.size()) {
    BulkCopyComes(drawn - have.size());
  } else {
    Enter(have[drawn]);
    RunnerHooks::ArriveWithCopies();
  }
  return true;
}

void GridRunner::BulkCopyComes(size_t which) {
  const BulkCopy copy = bulk_[which];
  const uintptr_t offset = copy.by.shared_from - reinterpret_cast<uintptr_t>(SharedOf(0));
  const auto block = static_cast<unsigned>(offset / kMostSharedBytes);
  if (!IsThere(block)) Find(fmt::format("block {} left while a copy was on its way to it", block));
  bulk_.erase(bulk_.begin() + static_cast<ptrdiff_t>(which));
  std::memcpy(copy.to, copy.from, copy.bytes);
  BarrierWord word = BarrierWord::Of(*copy.barrier);
  word.announced -= static_cast<int32_t>(copy.bytes / kBulkBytes);
  const bool last = word.Completes();
  *copy.barrier = word.bits();
  if (observer_ != nullptr) {
    observer_->BulkEnds(copy.by, copy.to, copy.from, copy.bytes, copy.barrier, last);
  }
}

// Lanes that wait for each other.
bool GridRunner::ReleaseWarp(unsigned warp) {
  const unsigned first = warp * kWarp, count = std::min<unsigned>(kWarp, slots_ - first);
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
