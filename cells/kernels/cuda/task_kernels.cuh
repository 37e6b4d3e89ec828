// How every task begins and ends on a device, whatever its cell: the kernels before and behind its steps.
//
//   begin   start stamp | row lists into device memory | rows copied in          any number of blocks
//   end     copies out, mirrors | last block: end stamp, next + 1, signal + 1     likewise
//   signal  shows the signal: for queues whose end kernel does not (the paper's signaling kernel, BatchMaker section 5)
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_
#define CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_

#include "cells/kernels/cuda/intrinsics.cuh"
#include "cells/kernels/cuda/kernel_abi.h"

namespace cellbatch::cuda_kernels {

using namespace cuda_abi;

__device__ __forceinline__ int ThreadOfGrid() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int ThreadsOfGrid() { return gridDim.x * blockDim.x; }

// Copies a list to device memory if there is room for it, all threads of the grid together. Answers where it lies then.
__device__ inline const int* Bring(const int* from, int count, const QueueState& queue,
                                   long long& used) {
  if (from == nullptr || used + count > queue.list_ints) return from;
  int* const to = queue.lists + used;
  used += count;
  for (int i = ThreadOfGrid(); i < count; i += ThreadsOfGrid()) to[i] = from[i];
  return to;
}

// One row of a column, by the threads of a block.
__device__ __forceinline__ void CopyRowIn(const CopiedColumn& column, int row, const float* from) {
  float* const to = column.base + row * column.stride;
  for (int i = threadIdx.x; i < column.width; i += blockDim.x) {
    to[i] = from[i];
    if (column.mirror != nullptr) {
      column.mirror[static_cast<long long>(row) * column.width + i] = __float_as_int(from[i]);
    }
  }
}

__device__ inline void Mirror(const CopiedColumn& column, const TaskNow& now) {
  for (int i = ThreadOfGrid(); i < now.num_nodes * column.width; i += ThreadsOfGrid()) {
    const long long row = now.output_rows[i / column.width];
    const int at = i % column.width;
    column.mirror[row * column.width + at] = __float_as_int(column.base[row * column.stride + at]);
  }
}

}  // namespace cellbatch::cuda_kernels

// `first_columns`: by table, the one that is copied into.
extern "C" __global__ void __launch_bounds__(128)
    cellbatch_begin(cellbatch::cuda_abi::QueueState* queue,
                    const cellbatch::cuda_abi::CopiedColumn* first_columns) {
  using namespace cellbatch::cuda_kernels;
  const unsigned place = static_cast<unsigned>(queue->next % queue->ring_slots);
  const TaskSlot& slot = queue->ring[place];
  const bool first = ThreadOfGrid() == 0;
  if (first) queue->stamps[place].start_ns = DeviceClockNs();
  long long used = 0;
  for (int i = 0; i < slot.num_inputs; ++i) {
    const InputList& input = slot.inputs[i];
    const bool sums = input.offsets != nullptr;
    const int rows = sums ? input.offsets[slot.num_nodes] : slot.num_nodes;
    const int* const to_rows = Bring(input.rows, rows, *queue, used);
    const int* const to_offsets = Bring(input.offsets, slot.num_nodes + 1, *queue, used);
    if (first) queue->now.inputs[i] = {to_rows, to_offsets};
  }
  const int* const output_rows = Bring(slot.output_rows, slot.num_nodes, *queue, used);
  if (first) {
    queue->now.output_rows = output_rows;
    queue->now.num_nodes = slot.num_nodes;
  }
  for (int c = 0; c < slot.num_copies_in; ++c) {
    const CopyInItem& copy = slot.copies_in[c];
    const CopiedColumn& column = first_columns[copy.rows > 0 ? copy.table : 0];
    const float* const source = reinterpret_cast<const float*>(copy.source);
    for (int r = blockIdx.x; r < copy.rows; r += gridDim.x) {
      CopyRowIn(column, copy.first + r, source + static_cast<long long>(r) * column.width);
    }
  }
}

// `outputs`: the columns of the task's output table.
extern "C" __global__ void __launch_bounds__(128)
    cellbatch_end(cellbatch::cuda_abi::QueueState* queue,
                  const cellbatch::cuda_abi::CopiedColumn* outputs, int num_columns, int signals) {
  using namespace cellbatch::cuda_kernels;
  const unsigned place = static_cast<unsigned>(queue->next % queue->ring_slots);
  const TaskSlot& slot = queue->ring[place];
  for (int c = blockIdx.x; c < slot.num_copies_out; c += gridDim.x) {
    const CopyOutItem& copy = slot.copies_out[c];
    if (copy.dest == nullptr) continue;
    const CopiedColumn& column = outputs[copy.column];
    float* const dest = reinterpret_cast<float*>(copy.dest);
    const float* const from = column.base + copy.row * column.stride;
    for (int i = threadIdx.x; i < column.width; i += blockDim.x) dest[i] = from[i];
  }
  for (int c = 0; c < num_columns; ++c) {
    if (outputs[c].mirror != nullptr) Mirror(outputs[c], queue->now);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0 || atomicAdd(&queue->blocks_done, 1u) != gridDim.x - 1) return;
  __threadfence_system();  // every block's copies are there: all of them drew their tickets
  queue->blocks_done = 0;
  queue->stamps[place].end_ns = DeviceClockNs();
  queue->next += 1;
  queue->signal += 1;
  if (signals != 0) StoreForAll(queue->host_signal, queue->signal);
}

extern "C" __global__ void cellbatch_signal(cellbatch::cuda_abi::QueueState* queue) {
  cellbatch::cuda_kernels::StoreForAll(queue->host_signal, queue->signal);
}

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_TASK_KERNELS_CUH_
