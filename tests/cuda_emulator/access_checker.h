// What compute-sanitizer's memcheck, initcheck and racecheck would find, for kernels that run in the emulator.
//
//   AccessChecker checker;                 runner.set_observer(&checker)
//   checker.Allow(rows, bytes, true)       a range that kernels may touch, and that has been written
//   checker.Allow(scratch, bytes, false)   one that nobody has written yet
//   runner.Run(..)
//   checker.findings()                     "t0_s1, block (0, 3), thread 17: race: reads 4 bytes at allocation 2 + 64, which .."
//
//   out of bounds     neither in a range, nor in the launch's shared memory, nor on the thread's own stack
//   misaligned        not on a multiple of what is accessed at once
//   not written       a range is written by the host (Allow, Wrote) or by kernels, shared memory by its block in this launch
//   race              two threads of a launch, one of them writing, not both atomic, and nothing orders them (launch_order.h);
//                     writing the same value is no excuse, but see DeferRacesOfWrites
//   copy under way    what cp.async is started to is touched before its thread has waited for it; or what it copies is
//                     written meanwhile
//   too early         what is not the block's own is touched by a launch that may begin before the one before it has ended
//                     (Grid::early), by a thread that has not waited for that; but for reads of what that launch does not write
//   race of streams   two operations, one of them writing, that no stream orders (stream_order.h); for who says BeginsOperation
//
// Launches come one after the other, and the host between them, unless BeginsOperation says otherwise. A granule is 4 bytes, for which shadow_memory.h keeps who
// touched it last: a race with somebody older than that is missed, but only where fences or barriers of some lanes order the
// others. A finding is one access; reads of a granule that is not written are told once. At most kMostFindings.
//
// One thread at a time. Some 10 ns an access.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_ACCESS_CHECKER_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_ACCESS_CHECKER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/cuda_emulator/grid_runner.h"
#include "tests/cuda_emulator/launch_order.h"
#include "tests/cuda_emulator/shadow_memory.h"
#include "tests/cuda_emulator/stream_order.h"

namespace cellbatch::emulator {

class AccessChecker : public AccessObserver {
 public:
  // As ShadowMemory has them. REQUIRES: no launch is in progress.
  void Allow(const void* from, size_t bytes, bool written, bool of_host = false) {
    memory_.Allow(from, bytes, written, of_host);
  }
  void Forget(const void* from) { memory_.Forget(from); }
  void ForgetAll() { memory_.Clear(); }
  void Wrote(const void* from, size_t bytes) { memory_.Wrote(from, bytes); }

  // Before an operation of a stream: a launch, or what `Copies` says.
  void BeginsOperation(const StreamPlace& place);
  // The operation reads or writes a range at once, as copies and fills do. `what`: for findings.
  void Copies(std::string_view what, const void* at, size_t bytes, bool writes);
  // Two kernels or threads that write the same, but to shared memory, are told of when somebody reads that: rows that everybody
  // writes and nobody reads (LoadedModel::trash_row) are right.
  void DeferRacesOfWrites() { defers_ = true; }
  // Called before a kernel writes to memory that is the host's, at least once for each 4 bytes and launch.
  void set_writes_host(std::function<void(uintptr_t at)> writes) {
    writes_host_ = std::move(writes);
  }

  // The oldest first.
  const std::vector<std::string>& findings() const { return findings_; }
  std::vector<std::string> TakeFindings() { return std::exchange(findings_, {}); }
  static constexpr size_t kMostFindings = 100;

  void Accessed(const RunningThread& thread, const void* at, size_t bytes, int kind) override;
  void LaunchBegins(const KernelObject& object, const KernelFunction& function,
                    const Grid& grid) override;
  void BlocksBegin(const RunningThread& first) override;
  void BlockBarrier(unsigned block) override { order_.BlockBarrier(block); }
  void ClusterBarrier() override;
  void WarpBarrier(unsigned first, unsigned lanes) override { order_.WarpBarrier(first, lanes); }
  void Fence(const RunningThread& thread) override { order_.Fence(thread.slot); }
  void BarrierBegins(const RunningThread& thread, const void* barrier) override;
  void Arrives(const RunningThread& thread, const void* barrier, bool last) override {
    order_.Arrives(thread.slot, barrier, last);
  }
  void Waited(const RunningThread& thread, const void* barrier) override {
    order_.Waited(thread.slot, barrier);
  }
  void CopyStarts(const RunningThread& thread, const void* to, size_t room, const void* from,
                  size_t bytes) override;
  void CopyEnds(const RunningThread& thread, const void* to, size_t room, const void* from,
                size_t bytes) override;
  void CopyIsTold(const RunningThread& thread, const void* to, size_t room,
                  const void* barrier) override;
  void CopiesArrive(const void* barrier, bool last) override {
    order_.Arrives(order_.SlotOfCopies(barrier), barrier, last);
  }
  void BulkStarts(const RunningThread& thread, const void* to, const void* from,
                  size_t bytes) override;
  void BulkEnds(const RunningThread& thread, const void* to, const void* from, size_t bytes,
                const void* barrier, bool last) override;

 private:
  bool NotOfTheLaunchBefore(uintptr_t from, uintptr_t to);
  void AccessedInPieces(const RunningThread& thread, const void* from, size_t bytes);
  struct Access {
    const RunningThread& thread;
    uintptr_t from;
    size_t bytes;
    int kind;
    bool told = false;  // a finding is enough
  };
  // Where there were atomics, by granule.
  struct AtomicPlace {
    uint32_t serial = 0;
    std::array<AccessStamp, 4> stamps = {};
    KnownPast left = {};
  };

  // Of that thread's block.
  bool Shared(const RunningThread& thread, uintptr_t at, size_t bytes) const {
    return at >= thread.shared_from && at + bytes <= thread.shared_from + shared_bytes_;
  }
  // Of any of the blocks that run.
  bool SharedByAny(uintptr_t at) const {
    return at - shared_from_ < shared_.size() * kGranuleBytes &&
           (at - shared_from_) % kMostSharedBytes < shared_bytes_;
  }
  ShadowGranule* Granule(uintptr_t address, unsigned bytes);
  void Touch(Access& access, uintptr_t address, ShadowGranule& granule, unsigned bytes);
  void TouchAtomically(Access& access, uintptr_t address, ShadowGranule& granule, unsigned bytes);
  bool WatchStreams(Access& access, uintptr_t address, ShadowGranule& granule, bool writes);
  void TellOfWrites(Access& access, uintptr_t address, ShadowGranule& granule);
  void Race(Access& access, uintptr_t address, AccessStamp other, std::string_view how);
  bool Aligned(Access& access);
  void Find(Access& access, std::string_view kind, std::string_view what);
  std::string Name(uintptr_t address) const;

  ShadowMemory memory_;
  LaunchOrder order_;
  StreamOrder streams_;
  bool defers_ = false;
  bool told_of_streams_ = false;  // of the operation that runs
  std::function<void(uintptr_t)> writes_host_;
  std::vector<ShadowGranule> shared_;  // of all blocks of a cluster
  std::vector<uintptr_t> barriers_;    // in shared memory, that were begun in these blocks
  std::unordered_map<uintptr_t, AtomicPlace> atomics_;
  std::vector<std::string> findings_;
  // Of the launch and block that run.
  std::string kernel_;
  uint32_t serials_ = 0, launch_ = 0, block_ = 0;
  uint32_t launches_ = 0, launch_before_ = 0;           // their number; of the same stream
  std::unordered_map<uint64_t, uint32_t> last_launch_;  // by stream
  uintptr_t shared_from_ = 0;                           // of the first of the blocks that run
  size_t shared_bytes_ = 0;                             // of each
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_ACCESS_CHECKER_H_
