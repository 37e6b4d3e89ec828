// Which tasks may go as one launch. Together, they copy in before any of them computes, and copy out after all of them have:
//
//   one by one   in A | step A | out A | in B | step B | out B       out: copies out, and mirrors of int32 columns
//   together     in A, in B | step A | step B | out A, out B
//
// which leaves the same unless
//   B copies into a row that A reads, writes or copies into    it would be there too early
//   B's step writes a row that A copies out or mirrors         A's value would be gone
// Trash rows are nobody's, so padding keeps nobody apart.
//
// A mark for each row, of the last launch whose tasks touched it, so that nothing is cleared in between. Made at load (4 bytes a
// row); then allocates nothing: some ns for each row that a task names. One thread, the worker's of its queue.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_GROUP_ROWS_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_GROUP_ROWS_H_

#include <cstdint>
#include <vector>

#include "cells/device/batched_task.h"
#include "cells/device/memory.h"
#include "cells/model.h"

namespace cellbatch::cuda {

class GroupRows {
 public:
  // Of tables of so many rows. `model` outlives it. `first_launch`: tests start where marks wrap.
  GroupRows(const Model& model, const RowBudget& budget, uint32_t first_launch = 1);

  // A launch begins with this task. REQUIRES, of each: CheckTask.
  void Begin(const BatchedTask& task);
  // Whether this one, of the same cell type, may go with those that were taken since Begin. It is taken then.
  bool Take(const BatchedTask& task);

 private:
  // Of a launch: a row that it touches, one of which what its steps leave is read at its end.
  static constexpr uint32_t kTouched = 0, kLeft = 1, kMarks = 2;
  static constexpr uint32_t kMostLaunches = UINT32_MAX / kMarks;

  struct Type {
    std::vector<int32_t> inputs;  // tables
    std::vector<bool> sums;
    int32_t output = 0;
    bool mirrored = false;
  };
  using Marks = std::vector<uint32_t>;

  bool MayGo(const BatchedTask& task, const Type& type) const;
  void Add(const BatchedTask& task, const Type& type);
  uint32_t Of(uint32_t mark) const { return launch_ * kMarks + mark; }

  std::vector<Type> types_;
  std::vector<Marks> tables_;  // by row, the trash row last
  uint32_t launch_;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_GROUP_ROWS_H_
