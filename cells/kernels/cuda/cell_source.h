// Cells' programs as CUDA source, to be compiled at load by NVRTC: one kernel a step, with the step's shapes, groups and
// element-wise tail written out, over templates that are the same for all (product.cuh, rows.cuh). Knows steps, never cells.
//
//   CellProgram --AddCellSource--> text:     one __global__ function a step, after CellSourcePrelude()
//                                  CudaStep: how to launch it, and what its numbered columns and values are
//
//   __global__ void t3_s0(StepArgs a)      type 3, its step 0. Grid: x over units, y over nodes; blocks beyond the task's
//                                          nodes leave at once, or have zeros, so a launch may be wider.
//
// Pure; load time; any thread. A node's bits depend on its inputs only: every sum has one order, whatever the grid.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cells/ids.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// An array in device memory that a step reads, the same for all nodes: StepArgs::values by number.
struct CudaValue {
  // A whole parameter of the definition, or prepared, as it lies. Invalid: `floats`, made for this step alone.
  ParameterId parameter;
  std::vector<float> floats;
};

// One of the kernels that a step can be run by: any of them leaves the same bits.
struct CudaShape {
  std::string name;  // of the __global__ function
  int threads = 0;   // of a block
  int blocks_x = 1;  // grid.x; grid.y = ceil(nodes of the launch / nodes_a_block)
  int nodes_a_block = 1;
  int shared_bytes = 0;  // dynamic
  int most_nodes = 0;    // of launches that it is the best for
  // The compiler may give its threads all registers of an SM, as shared memory lets few blocks in. Else it spills some to let more in.
  bool all_registers = false;
  int cluster = 1;  // blocks along nodes that need one another: a launch has a multiple of them
};

struct CudaStep {
  std::vector<CudaShape>
      shapes;  // by most_nodes, ascending; at least one; the last is for larger launches too
  std::vector<Place>
      columns;  // kInput and kOutput: StepArgs::columns by number, whose base is behind `offset`
  std::vector<CudaValue> values;
};

struct CudaCell {
  std::vector<CudaStep> steps;  // in order
};

// The values of a parameter of the definition, or prepared (IsPrepared): what packing reads, on the host.
using ParameterData = absl::FunctionRef<const float*(ParameterId)>;

// Who multiplies fp32. Either within design.md's bound; their bits differ, so a model has one way for all its sizes.
enum class Fp32By : uint8_t {
  kFma,          // one multiply-add for each weight (product.cuh); emulated, the faster one
  kTensorCores,  // three products of tf32 for one (mma_product.cuh); on a GPU, the faster one
};

// What the GPU has, beyond what all have that our kernels run on (sm_80), and what is asked of it.
struct CudaTarget {
  bool wgmma = false;  // sm_90a: Hopper's matrix instructions
  // Bytes of shared memory that a block may have: Hopper's; of others it is 99 KiB at least.
  int most_shared = 227 << 10;
  Fp32By fp32 = Fp32By::kTensorCores;
};

// Whether a column that the program writes (kOutput) is kept as bf16 too, for products that read it: ColumnView::rounded.
using IsRounded = absl::FunctionRef<bool(const Place& output)>;

// Appends the kernels of one program, named prefix_s0, prefix_s1, .., to `text`.
CudaCell AddCellSource(const std::string& prefix, const CellProgram& program, ParameterData data,
                       IsRounded is_rounded, const CudaTarget& target, std::string& text);

// What goes before them, once: kernel_abi.h and the templates.
std::string CellSourcePrelude();
// The kernels that begin and end every task, and the one that signals (task_kernels.cuh), with what they build on.
std::string TaskKernelSource();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_
