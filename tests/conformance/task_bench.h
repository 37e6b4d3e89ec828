// Tasks for one device by hand: lists in the device's own task memory, rows named by number, answers read back.
//
//   TaskBench bench(model, setup, rows);
//   BatchedTask* a = bench.Task(device, {.cell = lstm, .inputs = {{1}, {kZeroRow}}, .out = {5}});
//   bench.CopyIn(a, x_table, 1, values);  bench.CopyOut(a, ColumnId(0), 5, answer);
//   bench.Run(device);       // everything made so far, to the end
//
// Where devices reach host blocks only, what tasks copy passes through such blocks, as a scheduler's would.
#ifndef CELLBATCH_TESTS_CONFORMANCE_TASK_BENCH_H_
#define CELLBATCH_TESTS_CONFORMANCE_TASK_BENCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cells/device/device.h"
#include "cells/device/signal.h"
#include "cells/model.h"
#include "tests/conformance/devices.h"

namespace cellbatch::conformance {

using Bytes = std::vector<std::byte>;

struct TaskSpec {
  CellTypeId cell;
  // By input. kOne: a row a node. kSum: see `sums`, and leave it empty here.
  std::vector<std::vector<Row>> inputs = {};
  // By input, by node: the rows summed.
  std::vector<std::vector<std::vector<Row>>> sums = {};
  std::vector<Row> out = {};
};

class TaskBench {
 public:
  // Loads `model` with `rows` rows in each table. Ends the process if that fails.
  TaskBench(const Model& model, const DeviceSetup& setup, int32_t rows);
  ~TaskBench();

  const LoadedModel& loaded() const { return *loaded_; }
  Device& device(int d) const { return *setup_.devices[static_cast<size_t>(d)]; }

  BatchedTask* Task(int device, const TaskSpec& spec);
  // At most kMaxCopies of each a task. `source` and `dest` outlive the run; dest is current after Run or Collect.
  void CopyIn(BatchedTask* task, TableId table, Row first, int32_t rows, const void* source,
              ColumnId column = ColumnId(0));
  void CopyOut(BatchedTask* task, ColumnId column, Row row, void* dest);

  // Offers what the device has not taken yet; how many it took.
  int Enqueue(int device);
  // Lets the device work on. Gives way to one that runs by itself.
  bool Advance(int device);
  // Brings what done tasks copied out to where it was asked for.
  void Collect(int device);
  // What lies where tasks that are not collected yet copy to.
  std::vector<std::byte> CopiedOut() const;
  // Everything made for this device, to the end; false if it does not come (a broken device).
  bool Run(int device);
  bool IsDone(int device, const BatchedTask* task) const {
    return SignalPassed(this->device(device).Signal(), task->sequence);
  }

  static constexpr int kMaxCopies = 320;

 private:
  struct Block {
    std::byte* memory;
    int64_t bytes;
  };
  struct StagedOut {
    const BatchedTask* task;
    std::byte* from;
    void* dest;
    size_t bytes;
  };
  struct Queue {
    std::vector<BatchedTask*> tasks;  // all of them
    size_t taken = 0;
    uint64_t first_sequence = 1;
    size_t used_bytes = 0;  // of task memory
    std::vector<StagedOut> staged;
  };
  std::byte* Stage(const void* values, int64_t bytes);
  template <typename T>
  T* Place(int device, const std::vector<T>& values, size_t count);

  DeviceSetup setup_;
  const Model& model_;
  std::unique_ptr<LoadedModel> loaded_;
  std::vector<Queue> queues_;
  std::vector<Block> blocks_;
};

}  // namespace cellbatch::conformance

#endif  // CELLBATCH_TESTS_CONFORMANCE_TASK_BENCH_H_
