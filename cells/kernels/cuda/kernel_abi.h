// What the host and the kernels of a step say to each other. Three compilers read this file: the host's, NVRTC at load (as
// text, before the generated kernels) and nvcc (which only checks it). So: no header is included, every type has the same
// size for all, and nothing is virtual.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_

namespace cellbatch::cuda_abi {

inline constexpr int kMostInputs = 8;    // of a cell: kMaxInputs
inline constexpr int kMostColumns = 32;  // that one step reads and writes
inline constexpr int kMostValues = 64;   // arrays that are the same for all nodes, of one step

// Row r at base + r * stride (4-byte elements; those of int32 by their bits).
struct ColumnView {
  float* base;
  long long stride;
};

struct InputList {
  const int* rows;
  const int* offsets;  // null: rows[node]; else node reads rows[offsets[node] .. offsets[node + 1])
};

// The task in progress, in memory that the device reads: a launch that is replayed finds another task in it.
struct TaskNow {
  int num_nodes;
  InputList inputs[kMostInputs];
  const int* output_rows;
};

// One step of a cell over the nodes of the task in progress. `columns` and `values` are numbered by the generator
// (cell_source.h, CudaStep). A column of an input is read at the rows of that input, a column of the output at
// `output_rows`, scratch and tokens by node.
struct StepArgs {
  const TaskNow* now;
  float* scratch;  // node n: scratch + n * scratch_stride
  long long scratch_stride;
  int* tokens;  // lookup l of node n: tokens[l * most_nodes + n]
  int most_nodes;
  ColumnView columns[kMostColumns];
  const float* values[kMostValues];
};

}  // namespace cellbatch::cuda_abi

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_KERNEL_ABI_H_
