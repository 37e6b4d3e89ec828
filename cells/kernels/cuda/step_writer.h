// What all kernels of generated source have in common: how places are written, and the numbers that columns and values get.
// Of cell_source.h's writers; load time, one thread.
#ifndef CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_
#define CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cells/kernels/cuda/cell_source.h"

namespace cellbatch {

class StepWriter {
 public:
  // `program`, what `is_rounded` names and `text` outlive this.
  StepWriter(std::string name, const CellProgram& program, ParameterData data,
             cellbatch::IsRounded is_rounded, const CudaTarget& target, std::string& text);

  // "float*" expressions: the row of `place` of the node whose number the expression `node` is.
  std::string Row(const Place& place, const std::string& node);
  // "unsigned short*" expressions: likewise as bf16, of inputs, outputs and scratch. REQUIRES: such products read it.
  std::string RoundedRow(const Place& place, const std::string& node);
  // Whether the `width` elements that a step leaves at `place` are kept as bf16 too.
  bool IsRounded(const Place& place, int64_t width) const;
  // An array of the step's own, or a parameter.
  int Value(std::vector<float> floats);
  int Value(ParameterId parameter);
  const float* Data(ParameterId parameter) const { return data_(parameter); }
  const CellProgram& program() const { return program_; }
  const CudaTarget& target() const { return target_; }

  // What a kernel begins with: it waits for the kernel before it. Then there is `now` (TaskNow).
  static const char* const kBegin;
  // A kernel: its body may use `a` (StepArgs), and begins with kBegin or what does as much. `suffix`: of its name, other than the
  // step's other shapes'.
  void AddShape(const std::string& suffix, CudaShape shape, const std::string& body);
  // Done: the step, of the shapes that were added.
  CudaStep Finish() { return std::move(step_); }

 private:
  int ColumnNumber(const Place& place);

  const CellProgram& program_;
  const ParameterData data_;
  const cellbatch::IsRounded is_rounded_;
  const CudaTarget target_;
  const std::string name_;
  std::string& text_;
  CudaStep step_;
};

// In fp32, by product.cuh; on tensor cores, in fp32 or bf16, by mma_product.cuh or wgmma_product.cuh.
CudaStep WriteProduct(const ProductStep& step, StepWriter writer);
CudaStep WriteMmaProduct(const ProductStep& step, StepWriter writer);
CudaStep WritePlain(const PlainStep& step, StepWriter writer);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_KERNELS_CUDA_STEP_WRITER_H_
