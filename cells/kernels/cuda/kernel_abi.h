// What the host and the kernels of one CUDA device say to each other. Three compilers read this file: the host's, NVRTC
// at load (as text, before the generated kernels) and nvcc (which only checks it). So: no header is included, every type
// has the same size for all, and nothing is virtual.
//
//   host memory, pinned and mapped                     device memory
//   ring of TaskSlot  --begin kernel--> TaskNow, row lists, copied in  --steps--> rows, scratch --end kernel--> answers,
//                                                                                    mirrors, stamps, signal (pinned)
//
// A graph of launches is made once and replayed: no parameter of a launch names a task. Kernels find theirs by
// QueueState::next, which the last kernel of a task moves on.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_

namespace cellbatch::cuda_abi {

inline constexpr int kMostInputs = 8;    // of a cell: kMaxInputs
inline constexpr int kMostColumns = 32;  // that one step reads and writes
inline constexpr int kMostValues = 64;   // arrays that are the same for all nodes, of one step

// Row r at base + r * stride (4-byte elements). Columns of int32 lie in such rows too, by their bits, and are repeated at
// `mirror` + r * width, in host memory, for the host to read (LoadedModel::host_column); null: nobody reads them there.
struct ColumnView {
  float* base;
  long long stride;
  int* mirror;
  int width;
  int is_int;
};

// As cells/device/batched_task.h has them: lists are read where the scheduler wrote them.
struct CopyInItem {
  const unsigned char* source;
  int table;
  int first;
  int rows;
};
struct CopyOutItem {
  unsigned char* dest;
  int column;
  int row;
};
struct InputList {
  const int* rows;
  const int* offsets;  // null: rows[node]; else node reads rows[offsets[node] .. offsets[node + 1])
};

// One task in the ring: written by the host before the launch that reads it. Pointers into host memory that the device
// reaches under the same addresses.
struct TaskSlot {
  int num_nodes;
  int num_copies_in;
  int num_copies_out;
  int num_inputs;
  InputList inputs[kMostInputs];
  const int* output_rows;
  const CopyInItem* copies_in;
  const CopyOutItem* copies_out;
};

// What the kernels of the task in progress read: left by the begin kernel, in device memory. Lists that fit their buffers
// are copied there; longer ones are read where they are.
struct TaskNow {
  int num_nodes;
  int num_inputs;
  InputList inputs[kMostInputs];
  const int* output_rows;
};

// By the device's clock (globaltimer), in host memory, one for each slot of the ring.
struct TaskStamps {
  long long start_ns;
  long long end_ns;
};

// Of one device (a stream). The host writes it once, before the first launch.
struct QueueState {
  unsigned long long next;   // the task in progress is at ring[next % ring_slots]
  unsigned int blocks_done;  // of the end kernel: the last one of them signals, and leaves 0
  unsigned int signal;       // the number that the next signal shows; 32 bits, wraps
  const TaskSlot* ring;
  TaskStamps* stamps;
  unsigned int ring_slots;
  unsigned int* host_signal;  // pinned: what the worker polls
  TaskNow now;
  int* lists;  // where row lists are copied to
  long long list_ints;
};

// One step of a cell over the nodes of the task in progress. `columns` and `values` are numbered by the generator
// (cell_source.h, CudaStep). A column of an input is read at the rows of that input, a column of the output at
// `output_rows`, scratch and tokens by node.
struct StepArgs {
  const QueueState* queue;
  float* scratch;  // node n: scratch + n * scratch_stride
  long long scratch_stride;
  int* tokens;  // lookup l of node n: tokens[l * most_nodes + n]
  int most_nodes;
  ColumnView columns[kMostColumns];
  const float* values[kMostValues];
};

}  // namespace cellbatch::cuda_abi

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
