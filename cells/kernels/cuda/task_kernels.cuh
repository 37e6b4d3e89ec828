// How every task begins and ends on a device, whatever its cell: the kernels before and behind its steps.
//
//   begin   start stamp | slot -> shared memory | lists -> device memory, copies in -> shared memory | rows copied in
//   end     copies out, mirrors | last block: end stamp, next + 1, signal + 1
//   signal  shows the signal: for queues whose end kernel does not (the paper's signaling kernel, BatchMaker section 5)
//
// A launch of several tasks has one begin and one end, and the steps of one task after those of the other in between:
//
//   begin  row of blocks k: slot next + k ..    | steps of task 0 | steps of task 1 | ..    end  row of blocks k: task k
//
// so all copies in come before the first step, all copies out behind the last; the host launches together only what that leaves
// as it is (cells/device/cuda/group_rows.h). The waits of begin are those of one task: its rows of blocks wait side by side.
//
// Begin and end have any number of blocks a task. What lies in host memory takes a microsecond or more to come, so begin goes
// there once for each `|` however much there is, everything asked for before anything is used, and end reads device memory alone.
//
// Where the GPU can (QueueOptions::early_launches), steps and end are launched while the kernel before them runs, and wait for
// its end first of all. Begin is not, so it never meets the task before.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/kernel_abi.h"
#include "cells/kernels/cuda/task_copies.cuh"

namespace cellbatch::cuda_kernels {

using namespace cuda_abi;

inline constexpr int kSlotWords = sizeof(TaskSlot) / sizeof(int);
inline constexpr int kCopyOutWords = sizeof(CopyOutItem) / sizeof(int);
inline constexpr int kMostLists = 2 + 2 * kMostInputs;
static_assert(kSlotWords <= kTaskThreads);
inline constexpr int kWordsAtOnce = 4;  // of lists: what a thread asks for before it uses any of it

// What device memory is to have of a task's lists: copies out, output rows, each input's rows and offsets, one behind the other.
struct TaskLists {
  int count;
  int ints[kMostLists];
  int ends[kMostLists];  // of it and those before it
  const int* from[kMostLists];
  int* to[kMostLists];  // null: there is no room, or nothing
};

// A block's, of the begin kernel.
struct BeginShared {
  TaskSlot slot;
  TaskLists lists;
  CopyInItem copies[kCopiesAtOnce];
  CopyPlan plans[kCopiesAtOnce];
};
static_assert(sizeof(BeginShared) <= kBeginSharedBytes);

// Lists --------------------------------------------------------------------------------------------

// The block's copy of the slot.
__device__ inline void ReadSlot(const TaskSlot& slot, BeginShared& shared) {
  const int word = threadIdx.x;
  if (word >= kSlotWords) return;
  reinterpret_cast<int*>(&shared.slot)[word] = reinterpret_cast<const int*>(&slot)[word];
}

// List `l`, by its thread.
__device__ inline void FindList(const TaskSlot& slot, int l, TaskLists& lists) {
  if (l == 0) {  // the first, as its items are on a multiple of 8
    lists.from[l] = reinterpret_cast<const int*>(slot.copies_out);
    lists.ints[l] = slot.num_copies_out * kCopyOutWords;
  } else if (l == 1) {
    lists.from[l] = slot.output_rows;
    lists.ints[l] = slot.num_nodes;
  } else if (l % 2 == 0) {
    lists.from[l] = slot.inputs[l / 2 - 1].rows;
    lists.ints[l] = slot.input_rows[l / 2 - 1];
  } else {
    lists.from[l] = slot.inputs[l / 2 - 1].offsets;
    lists.ints[l] = lists.from[l] != nullptr ? slot.num_nodes + 1 : 0;
  }
}

// Likewise: where in `room` it is brought to. Returns where it is read then.
__device__ inline const int* PlaceList(int* room, long long room_ints, int l, TaskLists& lists) {
  int end = 0;
#pragma unroll 4
  for (int k = 0; k <= l; ++k) end += lists.ints[k];
  const bool fits = lists.ints[l] > 0 && end <= room_ints;
  lists.ends[l] = end;
  lists.to[l] = fits ? room + (end - lists.ints[l]) : nullptr;
  return fits ? lists.to[l] : lists.from[l];
}

__device__ inline void LeaveList(const int* at, int l, TaskNow& now) {
  if (l == 0) {
    now.copies_out = reinterpret_cast<const CopyOutItem*>(at);
  } else if (l == 1) {
    now.output_rows = at;
  } else if (l % 2 == 0) {
    now.inputs[l / 2 - 1].rows = at;
  } else {
    now.inputs[l / 2 - 1].offsets = at;
  }
}

// All lists as one row of ints, by all threads of the grid.
__device__ inline void BringLists(const TaskLists& lists) {
  const int total = lists.ends[lists.count - 1], step = ThreadsOfGrid();
  for (int first = ThreadOfGrid(); first < total; first += kWordsAtOnce * step) {
    int of[kWordsAtOnce] = {}, words[kWordsAtOnce];
    int* to[kWordsAtOnce];
#pragma unroll 2
    for (int l = 0; l < lists.count - 1; ++l) {
      const int end = lists.ends[l];
#pragma unroll
      for (int w = 0; w < kWordsAtOnce; ++w) of[w] += first + w * step >= end ? 1 : 0;
    }
#pragma unroll
    for (int w = 0; w < kWordsAtOnce; ++w) {
      const int i = first + w * step, l = of[w];
      to[w] = i < total ? lists.to[l] : nullptr;
      if (to[w] == nullptr) continue;
      const int at = i - (lists.ends[l] - lists.ints[l]);
      to[w] += at;
      words[w] = lists.from[l][at];
    }
#pragma unroll
    for (int w = 0; w < kWordsAtOnce; ++w) {
      if (to[w] != nullptr) *to[w] = words[w];
    }
  }
}

// Place n behind the first one of a launch, in a ring.
__device__ __forceinline__ unsigned RingPlace(unsigned first, unsigned n, unsigned slots) {
  return first + n < slots ? first + n : first + n - slots;
}

// The first task's start is there. Those between them end where the steps of the next one began.
__device__ inline void LeaveStamps(const QueueState& queue, unsigned place, unsigned tasks,
                                   TaskStamps* stamps) {
  for (unsigned k = 1; k < tasks; ++k) {
    const long long ns = queue.steps_ns[k];
    stamps[RingPlace(place, k - 1, queue.ring_slots)].end_ns = ns;
    stamps[RingPlace(place, k, queue.ring_slots)].start_ns = ns;
  }
  stamps[RingPlace(place, tasks - 1, queue.ring_slots)].end_ns = DeviceClockNs();
}

}  // namespace cellbatch::cuda_kernels

// `columns`: those of each table, kMostTableColumns apart.
extern "C" __global__ void __launch_bounds__(128)
    cellbatch_begin(cellbatch::cuda_abi::QueueState* queue,
                    const cellbatch::cuda_abi::CopiedColumn* columns) {
  using namespace cellbatch::cuda_kernels;
  GridDependentsMayBegin();
  BeginShared& shared = *reinterpret_cast<BeginShared*>(cellbatch_shared);
  const TaskSlot& slot = shared.slot;
  TaskLists& lists = shared.lists;
  const unsigned place = RingPlace(queue->next, blockIdx.y, queue->ring_slots);
  const TaskSlot* const ring = queue->ring;
  TaskStamps* const stamps = queue->stamps;
  TaskNow& now = queue->now[blockIdx.y];
  const long long room_ints = queue->list_ints / gridDim.y / 2 * 2;
  int* const room = queue->lists + blockIdx.y * room_ints;
  const int thread = threadIdx.x;
  const bool first = blockIdx.x == 0;
  ReadSlot(ring[place], shared);
  if (first && blockIdx.y == 0 && thread == 0) stamps[place].start_ns = DeviceClockNs();
  __syncthreads();  // the slot is there
  const CopyShare share = ShareOf(slot.num_copies_in);
  int words[kCopyWordsAThread];
  AskForCopies(slot, share.first, words);
  const int num_lists = 2 + 2 * slot.num_inputs;
  if (thread == 0) lists.count = num_lists;
  if (thread < num_lists) FindList(slot, thread, lists);
  __syncthreads();  // every list's length is there
  if (thread < num_lists) {
    const int* const at = PlaceList(room, room_ints, thread, lists);
    if (first) LeaveList(at, thread, now);
  }
  if (first && thread == 0) {
    now.num_nodes = slot.num_nodes;
    now.num_copies_out = slot.num_copies_out;
  }
  __syncthreads();  // every list has its place
  BringLists(lists);
  for (int c = share.first; c < slot.num_copies_in; c += share.step) {
    if (c != share.first) AskForCopies(slot, c, words);
    KeepCopies(words, shared.copies);
    const int count = Least(kCopiesAtOnce, slot.num_copies_in - c);
    __syncthreads();  // the copies are there, and nobody reads the plans before
    if (thread < count) PlanCopy(shared.copies[thread], columns, shared.plans[thread]);
    __syncthreads();  // every copy's pieces are counted
    if (thread < count) shared.plans[thread].pieces_end = PiecesUpTo(shared.plans, thread);
    __syncthreads();  // the plans are there
    CopyPieces(shared.plans, count, share);
  }
}

// `outputs`: the columns of the tasks' output table.
extern "C" __global__ void __launch_bounds__(128)
    cellbatch_end(cellbatch::cuda_abi::QueueState* queue,
                  const cellbatch::cuda_abi::CopiedColumn* outputs, int num_columns, int signals) {
  using namespace cellbatch::cuda_kernels;
  GridDependencyWait();
  // Asked for before anything is waited for; the last block alone changes any of it, when all have read it.
  const unsigned place = queue->next, slots = queue->ring_slots, tasks = gridDim.y;
  const unsigned signal = queue->signal + tasks;
  TaskStamps* const stamps = queue->stamps;
  unsigned* const host_signal = queue->host_signal;
  const TaskNow& now = queue->now[blockIdx.y];
  const int num_nodes = now.num_nodes, num_copies = now.num_copies_out;
  const CopyOutItem* const copies = now.copies_out;
  const int* const rows = now.output_rows;
  const ColumnFacts facts = FactsOf(outputs, num_columns);
  CopyOut(copies, num_copies, outputs, (facts.most_width + 3) / 4);
  for (int c = 0; facts.mirrored && c < num_columns; ++c) {
    if (outputs[c].mirror != nullptr) Mirror(outputs[c], rows, num_nodes);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&queue->blocks_done, 1u) != gridDim.x * tasks - 1) return;
  __threadfence_system();  // every block's copies are there: all of them drew their tickets
  queue->blocks_done = 0;
  LeaveStamps(*queue, place, tasks, stamps);
  queue->next = RingPlace(place, tasks, slots);
  queue->signal = signal;
  if (signals != 0) StoreForAll(host_signal, signal);
}

extern "C" __global__ void cellbatch_signal(cellbatch::cuda_abi::QueueState* queue) {
  cellbatch::cuda_kernels::StoreForAll(queue->host_signal, queue->signal);
}

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_
