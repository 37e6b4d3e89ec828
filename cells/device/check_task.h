// Whether the rows that a task names are its tables': a row beyond, or a result in the row of zeros, is a bug of whoever made
// the task, and better told here than read. Ends the process (Check). Any thread; a pass over the task's lists.
#ifndef CELLBATCH_CELLS_DEVICE_CHECK_TASK_H_
#define CELLBATCH_CELLS_DEVICE_CHECK_TASK_H_

#include "cells/device/batched_task.h"
#include "cells/device/memory.h"

namespace cellbatch {

// `model`: the task's. The trash row is padding's to write.
void CheckTask(const LoadedModel& model, const BatchedTask& task);

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CHECK_TASK_H_
