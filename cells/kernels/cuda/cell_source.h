// Cells' programs as CUDA source, to be compiled at load by NVRTC: one kernel a step, with the step's shapes, groups and
// element-wise tail written out, over templates that are the same for all (product.cuh, ..). Knows steps, never cells.
//
//   CellProgram --MakeCellSource--> text (kernel_abi.h + templates + one __global__ function a step)
//                                   CudaStep: how to launch it, and what its numbered columns and values are
//
//   __global__ void t3_s0(StepArgs a)      type 3, its step 0. Grid: x over units, y over nodes; blocks beyond the task's
//                                          nodes leave at once, so a launch may be wider than its task.
//
// Pure; load time; any thread. A node's bits depend on its inputs only: every sum has one order, whatever the grid.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "cells/cell_definition.h"
#include "cells/program/cell_program.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

// What the compiler (cells/compile/lower.h) is told for CUDA devices.
extern const ProgramLimits kCudaLimits;

// An array in device memory that a step reads, the same for all nodes: StepArgs::values by number.
struct CudaValue {
  // Whole parameters as they lie (tables of lookups, operands): nothing is copied again for each step.
  // Invalid: `floats`, made for this step (packed weights, biases added up).
  ParameterId parameter;
  std::vector<float> floats;
};

struct CudaStep {
  std::string name;  // of the __global__ function
  int threads = 0;   // of a block
  int units = 0;     // grid.x = ceil(units / units_a_block), grid.y = ceil(nodes / nodes_a_block)
  int units_a_block = 1;
  int nodes_a_block = 1;
  int shared_bytes = 0;  // dynamic
  std::vector<Place>
      columns;  // kInput and kOutput places: StepArgs::columns by number (their base includes `offset`)
  std::vector<CudaValue> values;
};

struct CudaCell {
  std::vector<CudaStep> steps;  // in order
};

// Elements of a parameter of the definition, or prepared (IsPrepared): what packing reads, on the host.
using ParameterData = absl::FunctionRef<const float*(ParameterId)>;

// Appends the kernels of one program, named prefix_s0, prefix_s1, .., to `text`.
CudaCell AddCellSource(const std::string& prefix, const CellDefinition& cell,
                       const CellProgram& program, ParameterData data, std::string& text);

// What goes before them: kernel_abi.h and the templates. And the kernels that begin and end a task, the same for all
// models (task_kernels.cuh): a text of their own, with the prelude in it.
std::string CellSourcePrelude();
std::string TaskKernelSource();

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_CELL_SOURCE_H_
