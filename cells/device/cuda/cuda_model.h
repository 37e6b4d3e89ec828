// A model as it lies on one GPU: weights as its kernels read them, tables of rows, and for each queue and cell type launches that
// were recorded once, so that a task, or several, are one call of the driver.
//
//   values     [packed for step s0 | embedding | ..]      once, whoever reads them
//   tables     rows as on a CPU (cells/device/table_rows.h); int32 columns are repeated in host memory (mirrors)
//   by queue   scratch, tokens | graphs of type 0: of one task for up to 8 nodes, 16, .. 512; of two tasks; of four | type 1 ..
//
// Made by LoadCudaModel; immutable but for its rows.
#ifndef CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MODEL_H_
#define CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cells/device/cuda/cell_launch.h"
#include "cells/device/cuda/gpu_context.h"
#include "cells/device/cuda/group_rows.h"
#include "cells/device/cuda/kernel_module.h"
#include "cells/device/cuda/launch_queue.h"
#include "cells/device/cuda/launch_sizes.h"
#include "cells/device/memory.h"
#include "cells/model.h"

namespace cellbatch::cuda {

// One column of a table, on the GPU. Row r at base + r * stride (4-byte elements).
struct ColumnPlace {
  float* base = nullptr;
  int64_t stride = 0;
  int32_t width = 0;
  int32_t* mirror = nullptr;  // of the host: row r at r * width; null: nobody reads it there
  unsigned short* rounded =
      nullptr;  // as bf16, r * stride elements behind; null: no product reads it
};

// An array of rows: the FP32 columns of a table together, or one int32 column.
struct RowArray {
  DeviceBuffer memory;
  int64_t stride = 0;  // elements from row to row
};

// By TableId.
struct CudaTable {
  std::vector<RowArray> arrays;
  DeviceBuffer rounded;  // the first array as bf16, where products of a BF16 model read any of it
  std::vector<PinnedBuffer> mirrors;
  std::vector<ColumnPlace> columns;
  int32_t rows = 0;  // without the trash row
};

class CudaModel final : public LoadedModel {
 public:
  const Model& model() const override { return *model_; }
  absl::Span<const int32_t> host_column(TableId table, ColumnId column) const override;
  Row trash_row(TableId t) const override { return table(t).rows; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  int64_t row_bytes() const override { return row_bytes_; }  // with scratch and mirrors

  const CudaTable& table(TableId t) const { return tables_[static_cast<size_t>(t.value())]; }
  // For the memory's queue of that number: the least launch for so many nodes, 1 to kMostLaunchNodes, of each of so many tasks.
  const LaunchGraph& graph(int queue, CellTypeId type, int nodes, int tasks) const;
  // What that queue alone asks; it changes with every launch.
  GroupRows& group_rows(int queue) const { return *queues_[static_cast<size_t>(queue)].rows; }

 private:
  friend class ModelLoader;
  // Of one queue, which alone uses it.
  struct PerQueue {
    ScratchSpace scratch;
    std::vector<std::vector<std::vector<LaunchGraph>>> graphs;  // by type, number of tasks, size
    std::unique_ptr<GroupRows> rows;
  };
  CudaModel() = default;

  const Model* model_ = nullptr;
  KernelModule module_;
  DeviceBuffer values_, copied_columns_;
  std::vector<CudaTable> tables_;
  std::vector<PerQueue> queues_;
  int64_t weight_bytes_ = 0, row_bytes_ = 0;
};

}  // namespace cellbatch::cuda

#endif  // CELLBATCH_CELLS_DEVICE_CUDA_CUDA_MODEL_H_
