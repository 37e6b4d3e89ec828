#include "cells/batched/batched_cell.h"

#include <utility>

#include "cells/check.h"

namespace cellbatch {

BatchedCell::BatchedCell(const CellType& type, BatchedProgram program,
                         const kernels::CpuKernels& kernels, std::optional<kernels::OpenBlas> blas)
    : type_(&type),
      program_(std::move(program)),
      kernels_(&kernels),
      blas_(std::move(blas)),
      weights_(program_.weight_floats) {
  const std::vector<Variable>& variables = program_.cell.problem.variables;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables[v].kind != VariableKind::kConstant) continue;
    Store(static_cast<VariableId>(v), weights_.data() + program_.start[v].shared);
  }
  for (const OperatorBatch& batch : program_.batches) {
    for (const PlacedOperand& operand : batch.operands) {
      if (operand.place != OperandPlace::kPacked) continue;
      float* to = weights_.data() + operand.start.shared;
      for (const VariableId v : operand.variables) {
        Store(v, to);
        to += operand.size.shared;
      }
    }
  }
}

void BatchedCell::Store(VariableId v, float* to) const {
  const auto& stored =
      std::get<StoredWeights>(program_.cell.variables[static_cast<size_t>(v)].from);
  const Weight& weight = type_->weights[static_cast<size_t>(stored.parameter.value())];
  for (int64_t r = 0; r < stored.rows; ++r) {
    for (int64_t c = 0; c < stored.cols; ++c) {
      *to++ = weight.data[stored.offset + r * stored.row_stride + c * stored.col_stride];
    }
  }
}

BatchedScratch::BatchedScratch(const BatchedProgram& program, int32_t most_nodes)
    : most_nodes_(most_nodes),
      memory_(program.memory.At(most_nodes)),
      stage_(program.stage.At(most_nodes)),
      places_(program.start.size()) {
  Check(most_nodes >= 1, "a task has a node");
}

}  // namespace cellbatch
