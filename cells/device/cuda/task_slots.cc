#include "cells/device/cuda/task_slots.h"

#include <algorithm>

#include "cells/device/cuda/launch_sizes.h"
#include "cells/device/memory.h"

namespace cellbatch::cuda {

int SlotsFor(const BatchedTask& task) {
  return std::max(1, (task.num_nodes + kMostLaunchNodes - 1) / kMostLaunchNodes);
}

void FillSlot(const BatchedTask& task, int first, cuda_abi::TaskSlot& slot) {
  const auto num_inputs = static_cast<int>(task.model->model().type(task.cell).in.size());
  slot = {};
  slot.num_nodes = std::min(task.num_nodes - first, kMostLaunchNodes);
  slot.num_inputs = num_inputs;
  const auto rows_at = [](const Row* rows, int at) {
    return reinterpret_cast<const int*>(rows + at);
  };
  for (int i = 0; i < num_inputs; ++i) {
    const InputRows& input = task.inputs[i];
    if (input.offsets == nullptr) {
      slot.inputs[i] = {rows_at(input.rows, first), nullptr};
      slot.input_rows[i] = slot.num_nodes;
    } else {
      slot.inputs[i] = {rows_at(input.rows, 0), input.offsets + first};
      slot.input_rows[i] = slot.inputs[i].offsets[slot.num_nodes];
    }
  }
  slot.output_rows = rows_at(task.output_rows, first);
  if (first == 0) {
    slot.num_copies_in = task.num_copies_in;
    slot.copies_in = reinterpret_cast<const cuda_abi::CopyInItem*>(task.copies_in);
  }
  if (first + slot.num_nodes == task.num_nodes) {
    slot.num_copies_out = task.num_copies_out;
    slot.copies_out = reinterpret_cast<const cuda_abi::CopyOutItem*>(task.copies_out);
  }
}

}  // namespace cellbatch::cuda
