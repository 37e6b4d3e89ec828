// One task of a chain model on one device, over and over: what the batch former would write, without a scheduler. One thread.
#ifndef CELLBATCH_TESTS_BENCH_CHAIN_TASK_H_
#define CELLBATCH_TESTS_BENCH_CHAIN_TASK_H_

#include <cstdint>
#include <vector>

#include "cells/device/batched_task.h"
#include "cells/device/device.h"
#include "cells/model.h"

namespace cellbatch {

// `batch` nodes of the model's only type, over rows scattered by `seed`: each task reads what the one before left.
class ChainTask {
 public:
  // REQUIRES: rows > 3 * batch, as many as `loaded` has.
  ChainTask(const Model& model, const LoadedModel& loaded, int32_t batch, int32_t rows,
            uint64_t seed);

  // Seconds until the device says that it is done. REQUIRES: `sequence` is the device's next.
  double Run(Device& device, uint64_t sequence);

 private:
  std::vector<Row> x_, before_, after_;
  BatchedTask task_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_BENCH_CHAIN_TASK_H_
