// A cell type ready to run on the CPU: its program, with the weights of every product packed in the order they are
// read, what parameters alone make (PreparedParameter), and folded tables where the budget allowed them (compile/fold.h). Immutable after Pack; any number of threads may run it.
// Pack: load time, allocates, seconds for large models. Parameters that steps read as they lie (embedding tables) are
// not copied: the model keeps them alive.
#ifndef CELLBATCH_CELLS_DEVICE_CPU_PACKED_CELL_H_
#define CELLBATCH_CELLS_DEVICE_CPU_PACKED_CELL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "cells/cell_type.h"
#include "cells/compile/fold.h"
#include "cells/kernels/cpu/kernel_table.h"
#include "cells/kernels/cpu/packed_memory.h"
#include "cells/kernels/cpu/product.h"
#include "cells/program/cell_program.h"

namespace cellbatch {

// Rows of accumulators after the first segment, by token: what a folded product starts from.
struct FoldedTable {
  kernels::PackedMemory rows;
  int64_t stride = 0;  // floats
  int32_t lookup = 0;  // whose index chooses the row
};

struct PackedProductStep {
  const ProductStep* plan = nullptr;
  std::unique_ptr<const kernels::PackedProduct> product;
  int first_segment = 0;  // 1: the first is folded
  std::optional<FoldedTable> folded;
};

// Floats of one row of accumulators as folded tables store it: whole cache lines, padded.
int64_t FoldedRowFloats(const ProductStep& step);
// Likewise of all columns that a node of this cell leaves.
int64_t FoldedRowFloats(const CellDefinition& cell);

// What a packed cell takes, to be asked before: PackedCell::bytes() of this program with these folds. A cell that is folded
// as a whole takes more while it is made: what it would take without.
int64_t PackedBytes(const CellDefinition& cell, const CellProgram& program, const CellFolds& folds);
int64_t BytesOf(const PreparedParameter& prepared);  // part of that
// What it takes beside that while what is prepared is made.
int64_t PreparingBytes(const CellDefinition& cell, const CellProgram& program);

// What a node leaves, by token: all that is left of a cell that is folded as a whole.
struct FoldedCell {
  std::vector<kernels::PackedMemory> columns;  // by output
  int32_t lookup = 0;                          // whose index chooses the row
};

using PackedStep = std::variant<SumStep, IndexStep, PackedProductStep, PlainStep, FoldedCell>;

// The program that runs where `program` is folded as a whole: its lookups, and the step that reads the token.
CellProgram ProgramOfFolded(const CellProgram& program);

class PackedCell {
 public:
  // What the program prepares at load is computed here, by its own steps. `folds`: the products whose first segment, a table row, is multiplied out here, or the whole cell: it is packed, run
  // for each token of its table on the calling thread, and dropped. REQUIRES: `type` outlives this.
  PackedCell(const CellType& type, CellProgram program, const CellFolds& folds,
             const kernels::CpuKernels& kernels);

  const CellType& type() const { return *type_; }
  const CellProgram& program() const { return *program_; }
  const std::vector<PackedStep>& steps() const { return steps_; }
  const kernels::CpuKernels& kernels() const { return *kernels_; }
  // Of the definition, or prepared.
  const float* Parameter(ParameterId p) const {
    const auto number = static_cast<size_t>(p.value()), given = type_->weights.size();
    return number < given ? type_->weights[number].data.get() : (*prepared_)[number - given].data();
  }
  int64_t bytes() const { return bytes_; }  // packed weights, folded tables, what was prepared
  // INVALID_ARGUMENT names the first weight for which the program's precision has no number; nothing may run then.
  const absl::Status& status() const { return status_; }

 private:
  using Prepared = std::shared_ptr<const std::vector<kernels::PackedMemory>>;

  // With what another one of the same type has prepared.
  PackedCell(const CellType& type, CellProgram program, const kernels::CpuKernels& kernels,
             Prepared prepared);
  void PackSteps(const CellFolds& folds);
  Prepared Prepare(const CellProgram& program) const;
  PackedStep PackProduct(const ProductStep& plan, bool fold);
  void CheckWeights(const SegmentPlan& segment, int32_t units);
  int64_t Elements(ParameterId p) const;
  FoldedTable MakeFoldedTable(const ProductStep& plan) const;
  FoldedCell FoldWhole() const;
  std::vector<float> Expand(const UnitValues& values, int32_t units) const;

  const CellType* type_;
  std::unique_ptr<const CellProgram> program_;  // steps_ point into it
  const kernels::CpuKernels* kernels_;
  Prepared prepared_;  // null: nothing is
  std::vector<PackedStep> steps_;
  int64_t bytes_ = 0;
  absl::Status status_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_CPU_PACKED_CELL_H_
