// A packed cell computed by the kernels that its program becomes for CUDA, on the CPU: for CellTrial (tests/testing), as what
// runs its nodes.
//
//   EmulatedCell emulated({.seed = 3});
//   CellTrial trial(definition, 1, kernels, {.limits = kCudaLimits, .run = emulated.Runner()});
//
// Everything that kernels may read or write lies in buffers that an AccessChecker knows: what they touch beside them, what they read
// before it was written, and races are findings. One thread at a time.
#ifndef CELLBATCH_TESTS_CUDA_KERNELS_EMULATED_CELL_H_
#define CELLBATCH_TESTS_CUDA_KERNELS_EMULATED_CELL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/packed_cell.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/kernel_abi.h"
#include "tests/cuda_emulator/access_checker.h"
#include "tests/cuda_emulator/grid_runner.h"

namespace cellbatch {

struct EmulatedOptions {
  uint64_t seed = 1;  // of the order in which threads run
  CudaTarget target = {};
  int32_t launch_nodes = 0;  // launches are for so many nodes, or as many as there are
  size_t shape = 0;          // of steps that have several (CudaStep), or the last of fewer
  bool every_shape =
      false;  // is compiled: for cells that differ in nothing else, which find it made
  std::function<std::string(std::string)> rewrite = {};  // the source, before it is compiled
};

// For `rewrite`: a bug, `to` for the first `from`, which must be there.
std::function<std::string(std::string)> Plant(const std::string& from, const std::string& to);

class EmulatedCell {
 public:
  explicit EmulatedCell(EmulatedOptions options);
  ~EmulatedCell();

  // Outlived by this.
  std::function<void(const PackedCell&, const CellColumns&, const NodeLists&)> Runner();
  // Of the runner and of the checker, and of what is kept as bf16 and is not what was rounded.
  std::vector<std::string> Findings() const;

 private:
  struct Compiled;

  void Run(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes);
  const Compiled& Compile(const PackedCell& cell);
  const CudaShape& ShapeOf(const CudaStep& step) const;
  void LeaveOthersOut(const CudaCell& cell, std::string& text) const;
  cuda_abi::StepArgs Args(const PackedCell& cell, const CudaStep& step,
                          const CellColumns& columns) const;
  void Allow(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes);
  void AllowRounded(const CellColumns& columns, const NodeLists& nodes);
  void CheckRounded(const PackedCell& cell, const CellColumns& columns, const NodeLists& nodes);
  void AllowValues(const PackedCell& cell, const CudaStep& step, const cuda_abi::StepArgs& args);

  const EmulatedOptions options_;
  emulator::GridRunner runner_;
  emulator::AccessChecker checker_;
  std::map<const PackedCell*, std::unique_ptr<Compiled>> compiled_;
  cuda_abi::TaskNow now_ = {};
  std::vector<float> scratch_;
  std::vector<uint16_t> rounded_scratch_;
  // Columns as bf16, by where they begin; none where the program is in fp32.
  std::map<const float*, std::vector<uint16_t>> rounded_;
  std::vector<std::string> wrong_;
  std::vector<int> tokens_;
  int64_t scratch_stride_ = 0;
  int32_t launch_nodes_ = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_CUDA_KERNELS_EMULATED_CELL_H_
