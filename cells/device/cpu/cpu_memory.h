// The memory of one NUMA node: models loaded for the CPU devices whose cores lie there.
//
//   LoadedModel:  packed cells | tables: rows of columns side by side, row 0 zeros, one of trash | scratch, one per device
//
// Row r of a column lies at base + r * stride (table_rows.h): the floats of a row side by side in the order that one plan
// says for all cells (cells/compile/plan_tables), int32 columns dense, so that the host reads them as they are.
// Load: control thread, seconds; the only allocation there is. What it will take (packed weights, folded tables, rows,
// scratch, the rows of the self test) is counted before anything is allocated, and refused with RESOURCE_EXHAUSTED where
// the machine or the control group has less: the rows come into being as they are touched, so that what is too much would
// otherwise be noticed late, by the system. At the end of it every cell computes a batch of 1, of 7
// and of b_max and compares bits (design.md, Numbers): a model whose rows depend on their company is not served.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_CPU_MEMORY_H_
#define CELLBATCH_CELLS_DEVICE_CPU_CPU_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/compile/fold.h"
#include "cells/device/cpu/cell_run.h"
#include "cells/device/cpu/fold_budget.h"
#include "cells/device/cpu/mapped_memory.h"
#include "cells/device/cpu/packed_cell.h"
#include "cells/device/cpu/process_limits.h"
#include "cells/device/memory.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/program/program_limits.h"

namespace cellbatch {

class CpuLoadedModel final : public LoadedModel {
 public:
  absl::Span<const int32_t> host_column(TableId table, ColumnId column) const override;
  const Model& model() const override { return *model_; }
  Row trash_row(TableId table) const override { return rows(table); }
  int64_t weight_bytes() const override { return weight_bytes_; }
  int64_t row_bytes() const override { return row_bytes_; }  // with the devices' scratch
  std::string folded() const override;
  int64_t scratch_bytes() const { return scratch_bytes_; }  // of all devices

  const PackedCell& cell(CellTypeId id) const { return cells_[static_cast<size_t>(id.value())]; }
  const CellColumns& columns(CellTypeId id) const {
    return cell_columns_[static_cast<size_t>(id.value())];
  }
  // Of tasks that are measured. They name row 0, and zeros are multiplied faster than numbers are (tile registers: by some
  // 5 %), so whatever rows are named, inputs read their table's trash row, which holds some numbers.
  const CellColumns& measured_columns(CellTypeId id) const {
    return measured_columns_[static_cast<size_t>(id.value())];
  }
  const ColumnArray& column(TableId table, ColumnId column) const {
    return tables_[static_cast<size_t>(table.value())][static_cast<size_t>(column.value())];
  }
  int32_t rows(TableId table) const { return rows_[static_cast<size_t>(table.value())]; }
  // Of the memory's device number `device`, which alone uses it.
  CellScratch& scratch(int device) const { return *scratch_[static_cast<size_t>(device)]; }

 private:
  friend class CpuMemory;
  CpuLoadedModel() = default;

  const Model* model_ = nullptr;
  FoldBudget::Share folds_taken_;
  ModelFolds folds_;
  std::vector<PackedCell> cells_;
  std::vector<int32_t> rows_;  // by table, without the trash row
  std::vector<std::vector<ColumnArray>> tables_;
  std::vector<MappedMemory> row_memory_;
  std::vector<CellColumns> cell_columns_, measured_columns_;
  std::vector<std::unique_ptr<CellScratch>> scratch_;
  int64_t weight_bytes_ = 0;
  int64_t row_bytes_ = 0;
  int64_t scratch_bytes_ = 0;
};

class CpuMemory final : public Memory {
 public:
  // What could still be taken; nullopt: unknown.
  using Available = std::function<std::optional<int64_t>()>;

  // `fold_budget_bytes`: folded tables of all its models together. `num_devices` compute on this memory, on `cpus`: models are
  // loaded there, so that what they read lies there (NUMA). No CPUs: wherever the caller is.
  CpuMemory(
      const kernels::CpuKernels& kernels, int num_devices, int64_t fold_budget_bytes,
      Available available = [] { return AvailableMemoryBytes(); }, std::vector<int> cpus = {})
      : kernels_(kernels),
        num_devices_(num_devices),
        fold_budget_(fold_budget_bytes),
        available_(std::move(available)),
        cpus_(std::move(cpus)) {}

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load(const Model& model,
                                                    const RowBudget& budget) override;
  // Folded tables of all of them are compared before any is made: the best by time saved per byte, of equals those of the
  // model whose name comes first.
  void Expect(absl::Span<const Model* const> models) override;
  absl::StatusOr<ModelAccount> Account(const Model& model) const override;
  const kernels::CpuKernels& kernels() const { return kernels_; }
  // What a step can hold here, and what is computed how.
  ProgramLimits limits() const;

 private:
  // How the cells of a model will be computed: nothing is allocated for it yet.
  struct Plan {
    std::vector<CellProgram> programs;  // by cell type; of one folded as a whole what folds it
    ModelFolds folds;                   // likewise
    std::vector<CellProgram> ProgramsThatRun() const;
  };

  absl::StatusOr<std::unique_ptr<LoadedModel>> LoadHere(const Model& model,
                                                        const RowBudget& budget);
  absl::StatusOr<Plan> PlanCells(const Model& model) const;
  Plan PlanCells(const Model& model, std::vector<CellProgram> programs) const;
  absl::Status CheckFits(const Model& model, const RowBudget& budget, const Plan& plan) const;
  void PackCells(const Model& model, Plan plan, CpuLoadedModel& loaded) const;
  absl::Status MapTables(const Model& model, const RowBudget& budget, CpuLoadedModel& loaded) const;

  const kernels::CpuKernels& kernels_;
  const int num_devices_;
  FoldBudget fold_budget_;
  // Of models that are expected, so that cells are compiled once. Theirs who load: they take turns.
  std::map<const Model*, std::vector<CellProgram>> compiled_;
  const Available available_;
  const std::vector<int> cpus_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_CPU_MEMORY_H_
