// What all kernels of generated source have in common: how places are written, and the numbers that columns and values get.
// Of cell_source.h's writers; load time, one thread.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cells/kernels/cuda/cell_source.h"

namespace cellbatch {

class StepWriter {
 public:
  // `program`, `text` outlive this.
  StepWriter(std::string name, const CellProgram& program, ParameterData data, std::string& text);

  // "float*" expressions: the row of `place` of the node whose number the expression `node` is.
  std::string Row(const Place& place, const std::string& node);
  // An array of the step's own, or a parameter.
  int Value(std::vector<float> floats);
  int Value(ParameterId parameter);
  const float* Data(ParameterId parameter) const { return data_(parameter); }
  const CellProgram& program() const { return program_; }

  // The kernel: its body may use `a` (StepArgs) and `now` (TaskNow).
  CudaStep Finish(int threads, int blocks_x, int nodes_a_block, int shared_bytes,
                  const std::string& body);

 private:
  int ColumnNumber(const Place& place);

  const CellProgram& program_;
  const ParameterData data_;
  std::string& text_;
  CudaStep step_;
};

CudaStep WriteProduct(const ProductStep& step, StepWriter writer);
CudaStep WritePlain(const PlainStep& step, StepWriter writer);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_
