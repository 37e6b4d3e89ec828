#include "cells/device/check_task.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {
namespace {

void CheckRows(const Row* rows, int64_t count, int32_t least, int32_t end) {
  uint32_t worst = 0;
  const auto base = static_cast<uint32_t>(least);
  for (int64_t i = 0; i < count; ++i)
    worst = std::max(worst, static_cast<uint32_t>(rows[i]) - base);
  Check(worst < static_cast<uint32_t>(end - least), "a task names rows of its tables");
}

}  // namespace

void CheckTask(const LoadedModel& model, const BatchedTask& task) {
  const CellType& type = model.model().type(task.cell);
  for (size_t i = 0; i < type.in.size(); ++i) {
    const bool sum = type.definition->inputs()[i].arity == Arity::kSum;
    const int64_t count = sum ? task.inputs[i].offsets[task.num_nodes] : task.num_nodes;
    CheckRows(task.inputs[i].rows, count, kZeroRow, model.trash_row(type.in[i]));
  }
  CheckRows(task.output_rows, task.num_nodes, kZeroRow + 1, model.trash_row(type.out) + 1);
}

}  // namespace cellbatch
