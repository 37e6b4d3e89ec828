#include "cells/device/cpu/cpu_memory.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "cells/check.h"
#include "cells/compile/fold.h"
#include "cells/device/cpu/cpu_limits.h"
#include "cells/device/cpu/self_test.h"
#include "cells/device/cpu/stay_on.h"
#include "cells/device/load_model.h"
#include "cells/device/table_rows.h"
#include "fmt/format.h"

namespace cellbatch {
namespace {

CellColumns ColumnsOf(const CpuLoadedModel& loaded, const CellType& type) {
  CellColumns columns;
  columns.zero_row = true;
  for (size_t i = 0; i < type.in.size(); ++i) {
    columns.inputs.emplace_back();
    for (const Column& read : type.definition->inputs()[i].reads) {
      const ColumnId id = loaded.model().table(type.in[i]).Find(read.name);
      columns.inputs.back().push_back(loaded.column(type.in[i], id));
    }
  }
  for (size_t c = 0; c < type.definition->columns().size(); ++c) {
    columns.outputs.push_back(loaded.column(type.out, ColumnId(static_cast<int64_t>(c))));
  }
  return columns;
}

CellColumns MeasuredColumnsOf(const CpuLoadedModel& loaded, const CellType& type) {
  CellColumns columns = ColumnsOf(loaded, type);
  columns.zero_row = false;
  for (size_t i = 0; i < type.in.size(); ++i) {
    for (ColumnArray& column : columns.inputs[i]) {
      column.base = column.At(loaded.trash_row(type.in[i]));
      column.stride = 0;
    }
  }
  return columns;
}

// Numbers from -1 to 1 for whoever measures; of int32 the zeros that are there already.
void FillTrashRow(const CpuLoadedModel& loaded, TableId table) {
  std::minstd_rand random;
  std::uniform_real_distribution<float> number(-1.0f, 1.0f);
  const std::vector<Column>& columns = loaded.model().table(table).columns;
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].type == ElementType::kInt32) continue;
    float* const row =
        loaded.column(table, ColumnId(static_cast<int64_t>(c))).At(loaded.trash_row(table));
    std::generate_n(row, columns[c].width, [&] { return number(random); });
  }
}

// `types`: whose programs they are.
ModelFolds PlanFoldsOf(absl::Span<const CellProgram> programs, absl::Span<const CellType> types,
                       int64_t budget_bytes) {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  const auto sums = [](const ProductStep& step) { return FoldedRowFloats(step) * kFloat; };
  const auto node = [&](int type) {
    return FoldedRowFloats(*types[static_cast<size_t>(type)].definition) * kFloat;
  };
  return PlanFolds(programs, budget_bytes, {sums, node});
}

// table row x matrix of "lstm" (4096 bytes, 3.20 multiply-adds saved a byte)
std::string OfferText(const FoldOffer& offer, const CellType& type) {
  return fmt::format("{} of \"{}\" ({} bytes, {:.2f} multiply-adds saved a byte)",
                     offer.step == FoldOffer::kWhole ? "all" : "table row x matrix", type.name,
                     offer.bytes, offer.rate);
}

std::vector<const CellProgram*> Pointers(const std::vector<CellProgram>& programs) {
  std::vector<const CellProgram*> pointers;
  for (const CellProgram& p : programs) pointers.push_back(&p);
  return pointers;
}

}  // namespace

absl::Span<const int32_t> CpuLoadedModel::host_column(TableId table, ColumnId id) const {
  const ColumnArray& c = column(table, id);
  Check(c.type == ElementType::kInt32, "only int32 columns are read by the host");
  const int64_t rows = rows_[static_cast<size_t>(table.value())];
  return {c.Int32At(0), static_cast<size_t>(rows * c.stride)};
}

std::string CpuLoadedModel::folded() const {
  std::string taken, refused;
  for (size_t t = 0; t < folds_.size(); ++t) {
    for (const FoldOffer& offer : folds_[t].taken) {
      taken += (taken.empty() ? "" : ", ") + OfferText(offer, model_->types[t]);
    }
    for (const FoldOffer& offer : folds_[t].refused) {
      refused += (refused.empty() ? "" : ", ") + OfferText(offer, model_->types[t]);
    }
  }
  if (refused.empty()) return taken;
  return fmt::format("{}; no room for {}", taken.empty() ? "nothing" : taken, refused);
}

absl::StatusOr<CpuMemory::Plan> CpuMemory::PlanCells(const Model& model) const {
  absl::StatusOr<std::vector<CellProgram>> programs = LowerCells(model, limits());
  if (!programs.ok()) return programs.status();
  return PlanCells(model, *std::move(programs));
}

CpuMemory::Plan CpuMemory::PlanCells(const Model& model, std::vector<CellProgram> programs) const {
  Plan plan = {std::move(programs), {}};
  std::optional<ModelFolds> folds = fold_budget_.KeptFor(model);
  plan.folds = folds.has_value() ? *std::move(folds)
                                 : PlanFoldsOf(plan.programs, model.types, fold_budget_.left());
  return plan;
}

ProgramLimits CpuMemory::limits() const {
  ProgramLimits limits = kCpuLimits;
  limits.splits = kernels_.split_to_bf16 != nullptr;
  return limits;
}

void CpuMemory::Expect(absl::Span<const Model* const> models) {
  fold_budget_.Keep({});
  compiled_.clear();
  std::vector<const Model*> by_name(models.begin(), models.end());
  std::sort(by_name.begin(), by_name.end(), [](const Model* a, const Model* b) {
    return std::tie(a->name, a->version) < std::tie(b->name, b->version);
  });
  std::vector<CellProgram> programs;
  std::vector<CellType> types;
  FoldBudget::Expected expected;
  for (const Model* const model : by_name) {
    absl::StatusOr<std::vector<CellProgram>> its = LowerCells(*model, limits());
    if (!its.ok()) continue;
    programs.insert(programs.end(), its->begin(), its->end());
    compiled_[model] = *std::move(its);
    types.insert(types.end(), model->types.begin(), model->types.end());
    expected.push_back({model, {}});
  }
  const ModelFolds all = PlanFoldsOf(programs, types, fold_budget_.left());
  auto next = all.begin();
  for (auto& [model, folds] : expected) {
    folds.assign(next, next + static_cast<std::ptrdiff_t>(model->types.size()));
    next += static_cast<std::ptrdiff_t>(model->types.size());
  }
  fold_budget_.Keep(std::move(expected));
}

std::vector<CellProgram> CpuMemory::Plan::ProgramsThatRun() const {
  std::vector<CellProgram> run;
  for (size_t t = 0; t < programs.size(); ++t) {
    run.push_back(folds[t].whole ? ProgramOfFolded(programs[t]) : programs[t]);
  }
  return run;
}

absl::Status CpuMemory::CheckFits(const Model& model, const RowBudget& budget,
                                  const Plan& plan) const {
  const std::optional<int64_t> available = available_();
  if (!available.has_value()) return absl::OkStatus();
  int64_t weights = 0, trial = 0;
  for (size_t t = 0; t < plan.programs.size(); ++t) {
    const CellDefinition& cell = *model.types[t].definition;
    weights += PackedBytes(cell, plan.programs[t], plan.folds[t]);
    trial = std::max(trial, SelfTestBytes(model.types[t]));
    trial = std::max(trial, PreparingBytes(cell, plan.programs[t]));
    if (!plan.folds[t].whole) continue;
    const int64_t made_by = PackedBytes(cell, plan.programs[t], {});
    trial = std::max(trial, made_by + CellScratch::BytesFor({&plan.programs[t]}));
  }
  const int64_t rows = RowBytes(model, budget);
  const std::vector<CellProgram> run = plan.ProgramsThatRun();
  const int64_t scratch = num_devices_ * CellScratch::BytesFor(Pointers(run));
  const int64_t asked = weights + rows + scratch + trial;
  if (asked <= *available) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "model \"{}\": needs {} bytes, {} are available: packed weights {}, rows {}, scratch "
      "{}, rows to try it {}",
      model.name, asked, *available, weights, rows, scratch, trial));
}

void CpuMemory::PackCells(const Model& model, Plan plan, CpuLoadedModel& loaded) const {
  loaded.cells_.reserve(model.types.size());
  for (size_t t = 0; t < model.types.size(); ++t) {
    loaded.cells_.emplace_back(model.types[t], std::move(plan.programs[t]), plan.folds[t],
                               kernels_);
    loaded.weight_bytes_ += loaded.cells_.back().bytes();
  }
  loaded.folds_ = std::move(plan.folds);
}

absl::Status CpuMemory::MapTables(const Model& model, const RowBudget& budget,
                                  CpuLoadedModel& loaded) const {
  loaded.rows_ = budget.rows;
  const std::vector<TableRows> tables = LayTables(model);
  for (size_t t = 0; t < tables.size(); ++t) {
    std::vector<float*> bases;  // by array
    for (const int64_t stride : tables[t].strides) {
      absl::StatusOr<MappedMemory> memory = MappedMemory::Map(BytesOfRows(stride, budget.rows[t]));
      if (!memory.ok()) {
        return absl::Status(
            memory.status().code(),
            fmt::format("model \"{}\": rows of table \"{}\": {}", model.name, model.tables[t].name,
                        std::string(memory.status().message())));
      }
      bases.push_back(reinterpret_cast<float*>(memory->data()));
      loaded.row_bytes_ += memory->size();
      loaded.row_memory_.push_back(*std::move(memory));
    }
    std::vector<ColumnArray>& arrays = loaded.tables_.emplace_back();
    for (size_t c = 0; c < model.tables[t].columns.size(); ++c) {
      const Column& column = model.tables[t].columns[c];
      const TableRows::Place& place = tables[t].columns[c];
      const auto array = static_cast<size_t>(place.array);
      arrays.push_back(
          {bases[array] + place.offset, tables[t].strides[array], column.width, column.type});
    }
    FillTrashRow(loaded, TableId(static_cast<int64_t>(t)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LoadedModel>> CpuMemory::Load(const Model& model,
                                                             const RowBudget& budget) {
  absl::StatusOr<std::unique_ptr<LoadedModel>> loaded;
  RunOn(cpus_, [&] { loaded = LoadHere(model, budget); });
  return loaded;
}

absl::StatusOr<std::unique_ptr<LoadedModel>> CpuMemory::LoadHere(const Model& model,
                                                                 const RowBudget& budget) {
  if (absl::Status s = model.Validate(); !s.ok()) return s;
  if (absl::Status s = CheckBudget(model, budget); !s.ok()) return s;
  auto compiled = compiled_.extract(&model);
  absl::StatusOr<Plan> plan =
      compiled.empty() ? PlanCells(model) : PlanCells(model, std::move(compiled.mapped()));
  if (!plan.ok()) return plan.status();
  if (absl::Status s = CheckFits(model, budget, *plan); !s.ok()) return s;
  std::unique_ptr<CpuLoadedModel> loaded(new CpuLoadedModel);
  loaded->model_ = &model;
  loaded->folds_taken_ = fold_budget_.Take(model, plan->folds);
  PackCells(model, *std::move(plan), *loaded);
  for (const PackedCell& cell : loaded->cells_) {
    if (cell.status().ok()) continue;
    return absl::InvalidArgumentError(
        fmt::format("model \"{}\": {}", model.name, std::string(cell.status().message())));
  }
  if (absl::Status s = MapTables(model, budget, *loaded); !s.ok()) return s;
  std::vector<const CellProgram*> programs;
  for (const PackedCell& cell : loaded->cells_) {
    loaded->cell_columns_.push_back(ColumnsOf(*loaded, cell.type()));
    loaded->measured_columns_.push_back(MeasuredColumnsOf(*loaded, cell.type()));
    programs.push_back(&cell.program());
  }
  for (int d = 0; d < num_devices_; ++d) {
    loaded->scratch_.push_back(std::make_unique<CellScratch>(programs));
    loaded->scratch_bytes_ += loaded->scratch_.back()->bytes();
  }
  loaded->row_bytes_ += loaded->scratch_bytes_;
  for (const PackedCell& cell : loaded->cells_) {
    if (absl::Status s = SelfTest(cell, loaded->scratch(0)); !s.ok()) return s;
  }
  return loaded;
}

}  // namespace cellbatch
