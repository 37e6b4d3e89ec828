// The one ring between the manager, a worker and its device.
//
//       done          enqueued         submitted
// -------|---------------|----------------|---------> sequence
//  free  |  in progress  |     queued     |   free
//     device -> worker        manager
//
// 1. done <= enqueued <= submitted <= retired + slots; the manager's `retired` follows `done`.
// 2. A slot is written by the manager only while free; kernels read it only while in progress.
// 3. A slot is free again once the manager has read it (retired), not when the device is done.
//
// Tasks and their lists lie in the device's task memory; what only the manager keeps of a task
// (TaskNotes) lies beside it on the host. Sequences start where the device says, and wrap at 2^64; pins
// keep their low 32 bits, which tell tasks apart that are less than 2^31 tasks apart. Nothing allocates
// after construction.
#ifndef CELLBATCH_SCHEDULER_TASK_RING_H_
#define CELLBATCH_SCHEDULER_TASK_RING_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "absl/types/span.h"
#include "cells/cell_graph.h"
#include "cells/check.h"
#include "cells/device/batched_task.h"
#include "cells/device/signal.h"
#include "scheduler/request_block.h"

namespace cellbatch {

class Lane;
class ReadyQueue;

// A node of a stopping chain: its words are read when its task is done.
struct StopNode {
  NodeRecord* record;
  RequestBlock* block;
  int32_t node;
  Row row;
};

// What the manager remembers of a submitted task.
struct TaskNotes {
  Lane* lane = nullptr;
  ReadyQueue* queue = nullptr;       // null: a warm-up task
  RequestBlock* starters = nullptr;  // requests whose first node is here
  RequestBlock* leavers = nullptr;   // requests that wait for this task to be done
  int64_t charged_ns = 0;            // device time charged to the lane in advance
  int32_t padding = 0;               // of its nodes, those of chains that ended (RunningChains)
  std::vector<StopNode> stops;
};

// Where the lists of one task are written, and how much fits.
struct TaskSlot {
  BatchedTask* task;
  int32_t* ints;  // rows and offsets
  int32_t num_ints;
  CopyIn* copies_in;
  int32_t max_copies_in;
  CopyOut* copies_out;
  int32_t max_copies_out;
  TaskNotes* notes;
};

class TaskRing {
 public:
  static int64_t SlotBytes(int batch_limit) {
    return Align(sizeof(BatchedTask)) + Align(Ints(batch_limit) * sizeof(int32_t)) +
           Align(kMaxInputPieces * sizeof(CopyIn)) +
           Align(static_cast<size_t>(batch_limit) * kMaxReturnsPerNode * sizeof(CopyOut));
  }
  // `memory` holds at least BytesNeeded(depth, batch_limit).
  static int64_t BytesNeeded(int depth, int batch_limit) {
    return 64 + SlotBytes(batch_limit) * static_cast<int64_t>(NumSlots(depth));
  }

  // `last`: the task before the first one, where the device's signal stands.
  TaskRing(absl::Span<std::byte> memory, int depth, int batch_limit, uint64_t last = 0)
      : mask_(NumSlots(depth) - 1),
        submitted_here_(last),
        retired_(last),
        submitted_(last),
        done_(last),
        enqueued_(last) {
    Check(static_cast<int64_t>(memory.size()) >= BytesNeeded(depth, batch_limit),
          "task memory is smaller than the ring");
    auto* at = reinterpret_cast<std::byte*>(Align(reinterpret_cast<uintptr_t>(memory.data())));
    for (size_t i = 0; i <= mask_; ++i, at += SlotBytes(batch_limit)) {
      std::byte* ints = at + Align(sizeof(BatchedTask));
      std::byte* copies_in = ints + Align(Ints(batch_limit) * sizeof(int32_t));
      std::byte* copies_out = copies_in + Align(kMaxInputPieces * sizeof(CopyIn));
      TaskNotes* notes = notes_.emplace_back(std::make_unique<TaskNotes>()).get();
      notes->stops.reserve(static_cast<size_t>(batch_limit));
      slots_.push_back({new (at) BatchedTask(), reinterpret_cast<int32_t*>(ints),
                        static_cast<int32_t>(Ints(batch_limit)),
                        reinterpret_cast<CopyIn*>(copies_in), kMaxInputPieces,
                        reinterpret_cast<CopyOut*>(copies_out), batch_limit* kMaxReturnsPerNode,
                        notes});
      tasks_.push_back(slots_.back().task);
    }
  }

  // Manager. ---------------------------------------------------------------------------------
  int in_flight() const { return static_cast<int>(submitted_here_ - retired_); }
  uint64_t next_sequence() const { return submitted_here_ + 1; }
  uint64_t retired() const { return retired_; }
  // The free slot that Submit will hand over. REQUIRES: in_flight() < slots.
  const TaskSlot& Next() {
    Check(submitted_here_ - retired_ <= mask_, "a task is formed where no slot is free");
    return slots_[(submitted_here_ + 1) & mask_];
  }
  void Submit() {
    Add();
    Publish();
  }
  // The same in two steps: the worker sees what was added from Publish on. So it sees tasks together that are formed together.
  void Add() {
    ++submitted_here_;
    slots_[submitted_here_ & mask_].task->sequence = submitted_here_;
  }
  void Publish() { submitted_.store(submitted_here_, std::memory_order_release); }
  uint64_t done() const { return done_.load(std::memory_order_acquire); }
  const TaskSlot& slot(uint64_t sequence) const { return slots_[sequence & mask_]; }
  // In order, one by one: the slot is free from here on.
  void Retire(uint64_t sequence) {
    Check(sequence == retired_ + 1, "tasks are retired in order");
    retired_ = sequence;
  }
  // Whether the manager has seen that task done; by the low bits of its sequence.
  bool Passed(uint32_t sequence) const {
    return static_cast<int32_t>(static_cast<uint32_t>(retired_) - sequence) >= 0;
  }
  // The full number of a task in flight, from its low bits.
  const TaskSlot& SlotInFlight(uint32_t sequence) const {
    return slots_[(retired_ + (sequence - static_cast<uint32_t>(retired_))) & mask_];
  }

  // Worker. ----------------------------------------------------------------------------------
  // Submitted and not enqueued, as far as they lie side by side.
  absl::Span<BatchedTask* const> Queued() const {
    const uint64_t submitted = submitted_.load(std::memory_order_acquire);
    const size_t first = (enqueued_ + 1) & mask_;
    return {tasks_.data() + first, std::min<size_t>(submitted - enqueued_, mask_ + 1 - first)};
  }
  void Enqueued(int n) { enqueued_ += static_cast<uint64_t>(n); }
  uint64_t enqueued() const { return enqueued_; }
  BatchedTask& task(uint64_t sequence) { return *tasks_[sequence & mask_]; }
  void Done(uint64_t sequence) {
    Check(SignalPassed(enqueued_, sequence), "a signal runs ahead of what was enqueued");
    done_.store(sequence, std::memory_order_release);
  }
  bool HasQueued() const { return submitted_.load(std::memory_order_acquire) != enqueued_; }

  // Any thread: a gauge.
  int64_t in_flight_gauge() const {
    const uint64_t done = done_.load(std::memory_order_relaxed);
    return static_cast<int64_t>(submitted_.load(std::memory_order_relaxed) - done);
  }

 private:
  static constexpr size_t Align(size_t bytes) { return (bytes + 63) & ~size_t{63}; }
  static size_t NumSlots(int depth) {
    return std::bit_ceil(static_cast<size_t>(std::max(depth, 2)));
  }
  // Rows of every input and offsets of every sum, the output rows, and the links of sums: one node
  // may bring kMaxSumLinks to each of its inputs.
  static size_t Ints(int batch_limit) {
    return static_cast<size_t>(batch_limit + 16) * (2 * kMaxInputs + 1) + kMaxInputs * kMaxSumLinks;
  }

  const size_t mask_;
  std::vector<TaskSlot> slots_;
  std::vector<BatchedTask*> tasks_;
  std::vector<std::unique_ptr<TaskNotes>> notes_;
  alignas(64) uint64_t submitted_here_;  // manager's
  uint64_t retired_;                     // manager's
  alignas(64) std::atomic<uint64_t> submitted_;
  alignas(64) std::atomic<uint64_t> done_;
  alignas(64) uint64_t enqueued_;  // worker's
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_TASK_RING_H_
