#include "cells/device/cuda/cuda_model.h"

#include "cells/check.h"

namespace cellbatch::cuda {

absl::Span<const int32_t> CudaModel::host_column(TableId t, ColumnId column) const {
  const ColumnPlace& place = table(t).columns[static_cast<size_t>(column.value())];
  Check(place.mirror != nullptr, "only int32 columns are read by the host");
  return {place.mirror, static_cast<size_t>(table(t).rows) * static_cast<size_t>(place.width)};
}

const LaunchGraph& CudaModel::graph(int queue, CellTypeId type, int nodes, int tasks) const {
  const auto& graphs = queues_[static_cast<size_t>(queue)].graphs;
  return graphs[static_cast<size_t>(type.value())][static_cast<size_t>(LaunchTasksNumber(tasks))]
               [static_cast<size_t>(LaunchSize(nodes))];
}

}  // namespace cellbatch::cuda
