// What the host and the kernels of one device's queue say to each other. Three compilers read this file: the host's, NVRTC at load (as
// text, before the generated kernels) and nvcc (which only checks it). So: no header is included, every type has the same
// size for all, and nothing is virtual.
//
//   host memory that the device reaches           device memory
//   ring of TaskSlot ---begin kernel---> TaskNow, row lists, rows copied in --steps--> rows --end kernel--> answers, mirrors,
//                                                                                               stamps, signal (host memory)
//
// No parameter of a launch names a task, so that a graph of launches can be made once and replayed: kernels find theirs by
// QueueState::next, which the end kernel moves on. A launch has one task or several that lie in the ring one behind the other:
// begin and end have a row of blocks for each (blockIdx.y), and every task its own steps in between.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_

namespace cellbatch::cuda_abi {

inline constexpr int kMostInputs = 8;         // of a cell: kMaxInputs
inline constexpr int kMostColumns = 32;       // that one step reads and writes
inline constexpr int kMostTableColumns = 16;  // of one table
inline constexpr int kMostValues = 64;        // arrays that are the same for all nodes, of one step
inline constexpr int kMostTasks = 4;          // that one launch begins and ends

// How the kernels that begin and end tasks are launched: threads of a block, and shared memory of one that begins.
inline constexpr int kTaskThreads = 128;
inline constexpr int kBeginSharedBytes = 8 << 10;

// Row r at base + r * stride (4-byte elements; those of int32 by their bits). `rounded`: its rows as bf16, as far apart in
// elements of two bytes; null: no product reads them.
struct ColumnView {
  float* base;
  long long stride;
  unsigned short* rounded;
};

struct InputList {
  const int* rows;
  const int* offsets;  // null: rows[node]; else node reads rows[offsets[node] .. offsets[node + 1])
};

// A column that is copied from or to, whole. `mirror`: where int32 columns are repeated, row r at mirror + r * width, in host
// memory, for the host to read (LoadedModel::host_column); null: nobody does.
struct CopiedColumn {
  float* base;
  long long stride;
  int width;
  int* mirror;
  unsigned short* rounded;  // as in ColumnView
};

// As cells/device/batched_task.h has them: lists are read where the scheduler wrote them.
struct CopyInItem {
  const unsigned char* source;
  int table;
  int first;
  int rows;  // 0: blanked by a cancel
  int column;
};
struct CopyOutItem {
  unsigned char* dest;  // null: likewise
  int column;
  int row;
};

// One task in the ring, written by the host before the launch that reads it.
struct TaskSlot {
  int num_nodes;
  int num_inputs;
  int num_copies_in;
  int num_copies_out;
  InputList inputs[kMostInputs];
  int input_rows[kMostInputs];  // how many InputList::rows has, so that no offset is waited for
  const int* output_rows;
  const CopyInItem* copies_in;
  const CopyOutItem* copies_out;
};

// By the device's clock, in host memory: one for each slot of the ring.
struct TaskStamps {
  long long start_ns;
  long long end_ns;
};

// A task in progress as its steps and its end read it: left by the begin kernel.
struct TaskNow {
  int num_nodes;
  int num_copies_out;
  InputList inputs[kMostInputs];
  const int* output_rows;
  const CopyOutItem* copies_out;
};

// Of one device (a stream), in its memory. The host writes it once, before the first launch.
struct QueueState {
  unsigned int
      next;  // the tasks in progress are ring[next], and as many behind it as the launch has
  unsigned int signal;       // what the signal shows once those before them are done; wraps
  unsigned int blocks_done;  // of the end kernel: its last block leaves 0
  unsigned int ring_slots;
  const TaskSlot* ring;
  TaskStamps* stamps;
  unsigned int* host_signal;  // what the worker polls
  // Where row lists and copies out are brought to, as far as there is room; others are read where they are. On a multiple of 8.
  int* lists;
  long long list_ints;  // shared out evenly among the tasks of a launch
  TaskNow now[kMostTasks];
  // When the steps of a launch's second task and those behind it began, and so those before them ended.
  long long steps_ns[kMostTasks];
};

// One step of a cell over the nodes of the task in progress. `columns` and `values` are numbered by the generator
// (cell_source.h, CudaStep). A column of an input is read at the rows of that input, a column of the output at
// `output_rows`, scratch and tokens by node.
struct StepArgs {
  const TaskNow* now;
  long long* begins_ns;     // written as it begins; null: nobody asks
  float* scratch;           // node n: scratch + n * scratch_stride
  unsigned short* rounded;  // as bf16, what products read of it: likewise
  long long scratch_stride;
  int* tokens;  // lookup l of node n: tokens[l * most_nodes + n]
  int most_nodes;
  int lists_are_there;  // 1: `now` was left before the kernel in front of this one began
  ColumnView columns[kMostColumns];
  const float* values[kMostValues];
};

}  // namespace cellbatch::cuda_abi

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
