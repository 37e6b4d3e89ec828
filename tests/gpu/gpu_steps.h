// What a GPU takes for one thing at a time, without a scheduler: to say that a task is done, and to run a step of a cell.
//
//   alone    |launch|--- begin, steps, end ---|signal|        the host's clock, one task, from Enqueue to Signal
//   on it           |--- begin, steps, end ---|               the GPU's own stamps of the same tasks
//   in a row |launch|--- 1 ---|--- 2 ---|--- 3 ---| ..        the host's clock, of many enqueued at once, by task: in launches of as
//                                                             many tasks as the device likes (QueueOptions::tasks_a_launch)
//
// Launching is what it costs its thread, by task: CPU time of the tasks in a row, but for those that are launched only once others
// are done.
//
// One thread. Ends the process with a message where anything fails, but where a device does not offer what a model asks for.
#ifndef CELLBATCH_TESTS_GPU_GPU_STEPS_H_
#define CELLBATCH_TESTS_GPU_GPU_STEPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/device/cuda/cuda_api.h"
#include "cells/device/cuda/launch_queue.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "tests/bench/report.h"

namespace cellbatch {

// Microseconds from the launch of an empty recorded task until the host sees its signal, on the GPU of that ordinal.
Quartiles SignalLatency(std::shared_ptr<const cuda::CudaApi> api, int ordinal, cuda::SignalBy by,
                        int repeats);

struct StepTime {
  int32_t batch = 0;
  Quartiles alone_us, device_us, row_us, launch_us;
};

// Of a model with one type, whose inputs each name one row a node, on the set's first device; rows are scattered. Words are
// any of the vocabulary. UNIMPLEMENTED: as Memory::Load says.
absl::StatusOr<std::vector<StepTime>> StepTimes(DeviceSet& set, const Model& model,
                                                const std::vector<int32_t>& batches, int repeats);

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GPU_GPU_STEPS_H_
