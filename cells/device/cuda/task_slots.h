// A task as slots of a queue's ring have it: one, or, where it has more nodes than a launch, several. Pure; some ns.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_TASK_SLOTS_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_TASK_SLOTS_H_

#include "cells/device/batched_task.h"
#include "cells/kernels/cuda/kernel_abi.h"

namespace cellbatch::cuda {

int SlotsFor(const BatchedTask& task);
// The nodes from `first` on, as many as a launch takes. Rows come in with the first of them, answers leave with the last. The
// slot names the task's own lists.
void FillSlot(const BatchedTask& task, int first, cuda_abi::TaskSlot& slot);

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_TASK_SLOTS_H_
