#include "cells/device/cuda/model_loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "cells/device/cuda/try_cells.h"
#include "cells/device/cuda/value_store.h"
#include "cells/device/held_weights.h"
#include "cells/device/load_model.h"
#include "cells/kernels/cuda/cell_source.h"
#include "cells/kernels/cuda/cuda_limits.h"

namespace cellbatch::cuda {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int64_t MirrorBytes(const Model& model, const RowBudget& budget) {
  int64_t bytes = 0;
  for (size_t t = 0; t < model.tables.size(); ++t) {
    for (const Column& column : model.tables[t].columns) {
      if (column.type == ElementType::kInt32) bytes += BytesOfRows(column.width, budget.rows[t]);
    }
  }
  return bytes;
}

}  // namespace

class ModelLoader {
 public:
  ModelLoader(const LoadTools& tools, const std::vector<LaunchQueue*>& queues, const Model& model,
              const RowBudget& budget)
      : tools_(tools), queues_(queues), model_(model), budget_(budget), loaded_(new CudaModel) {
    loaded_->model_ = &model;
  }

  absl::StatusOr<std::unique_ptr<LoadedModel>> Load();

 private:
  absl::Status CheckWeights() const;
  void FindRounded();
  absl::Status WriteKernels();
  absl::Status CheckFits() const;
  absl::Status MakeTables();
  absl::StatusOr<RowArray> MakeArray(int64_t stride, int32_t rows) const;
  absl::Status BringColumns();
  absl::Status RecordLaunches();
  absl::Status TryThem();

  const float* Data(size_t type, ParameterId parameter) const;
  int64_t FloatsOf(size_t type, ParameterId parameter) const;
  const float* DataOf(size_t type, const CudaValue& value) const {
    return value.parameter.valid() ? Data(type, value.parameter) : value.floats.data();
  }
  // Of a kInput or kOutput place.
  using ColumnOfTable = std::pair<TableId, ColumnId>;
  ColumnOfTable ColumnNamed(const CellType& type, const Place& place) const;
  bool IsRounded(const ColumnOfTable& column) const {
    return std::find(rounded_.begin(), rounded_.end(), column) != rounded_.end();
  }
  bool HasRounded(size_t table) const {
    return std::any_of(rounded_.begin(), rounded_.end(), [&](const ColumnOfTable& column) {
      return Index(column.first.value()) == table;
    });
  }
  int64_t RoundedBytes() const;
  cuda_abi::ColumnView ColumnOf(const CellType& type, const Place& place) const;
  absl::StatusOr<CellLaunch> LaunchOf(size_t type, const ScratchSpace& scratch,
                                      const LaunchQueue& queue) const;

  const LoadTools& tools_;
  const std::vector<LaunchQueue*>& queues_;
  const Model& model_;
  const RowBudget& budget_;
  std::vector<CellProgram> programs_;     // by type
  std::vector<PreparedValues> prepared_;  // likewise
  std::vector<CudaCell> cells_;           // likewise
  std::vector<ColumnOfTable> rounded_;    // that products read as bf16
  ValueStore values_;
  std::unique_ptr<CudaModel> loaded_;
};

// Of the definition, or prepared.
const float* ModelLoader::Data(size_t type, ParameterId parameter) const {
  const auto number = Index(parameter.value()), given = model_.types[type].weights.size();
  return number < given ? model_.types[type].weights[number].data.get()
                        : prepared_[type][number - given].data();
}

int64_t ModelLoader::FloatsOf(size_t type, ParameterId parameter) const {
  const auto number = Index(parameter.value()), given = model_.types[type].weights.size();
  return number < given ? model_.types[type].weights[number].shape.size()
                        : static_cast<int64_t>(prepared_[type][number - given].size());
}

ModelLoader::ColumnOfTable ModelLoader::ColumnNamed(const CellType& type,
                                                    const Place& place) const {
  if (place.kind == PlaceKind::kOutput) return {type.out, ColumnId(place.index)};
  const Input& input = type.definition->inputs()[Index(place.index)];
  const TableId table = type.in[Index(place.index)];
  return {table, model_.table(table).Find(input.reads[Index(place.column)].name)};
}

absl::Status ModelLoader::CheckWeights() const {
  for (size_t t = 0; t < programs_.size(); ++t) {
    const auto data = [&](ParameterId p) { return Data(t, p); };
    for (const Step& step : programs_[t].steps) {
      const auto* const product = std::get_if<ProductStep>(&step);
      if (product == nullptr) continue;
      for (const SegmentPlan& segment : product->segments) {
        absl::Status s = CheckHeld(segment, product->units, model_.types[t], programs_[t], data);
        if (s.ok()) continue;
        return absl::Status(s.code(),
                            fmt::format("model \"{}\": {}", model_.name, std::string(s.message())));
      }
    }
  }
  return absl::OkStatus();
}

void ModelLoader::FindRounded() {
  for (size_t t = 0; t < programs_.size(); ++t) {
    if (programs_[t].precision != Precision::kBf16) continue;
    for (const Step& step : programs_[t].steps) {
      const auto* const product = std::get_if<ProductStep>(&step);
      if (product == nullptr) continue;
      for (const SegmentPlan& segment : product->segments) {
        const PlaceKind kind = segment.source.kind;
        if (kind != PlaceKind::kInput && kind != PlaceKind::kOutput) continue;
        rounded_.push_back(ColumnNamed(model_.types[t], segment.source));
      }
    }
  }
}

// Beside the tables' first arrays.
int64_t ModelLoader::RoundedBytes() const {
  const std::vector<TableRows> layout = LayTables(model_);
  int64_t bytes = 0;
  for (size_t t = 0; t < layout.size(); ++t) {
    if (HasRounded(t)) bytes += BytesOfRows(layout[t].strides[0], budget_.rows[t]) / 2;
  }
  return bytes;
}

absl::Status ModelLoader::WriteKernels() {
  std::string text = CellSourcePrelude();
  for (size_t t = 0; t < programs_.size(); ++t) {
    const auto data = [&](ParameterId p) { return Data(t, p); };
    const auto is_rounded = [&](const Place& output) {
      return IsRounded(ColumnNamed(model_.types[t], output));
    };
    cells_.push_back(AddCellSource(fmt::format("t{}", t), programs_[t], data, is_rounded,
                                   tools_.Target(), text));
  }
  for (size_t t = 0; t < cells_.size(); ++t) {
    for (const CudaStep& step : cells_[t].steps) {
      for (const CudaValue& value : step.values) {
        values_.Add(DataOf(t, value), value.parameter.valid()
                                          ? FloatsOf(t, value.parameter)
                                          : static_cast<int64_t>(value.floats.size()));
      }
    }
  }
  auto module = KernelModule::Make(tools_.gpu, tools_.Text(std::move(text)));
  if (!module.ok()) return module.status();
  loaded_->module_ = *std::move(module);
  return absl::OkStatus();
}

absl::Status ModelLoader::CheckFits() const {
  const auto available = tools_.gpu->AvailableBytes();
  if (!available.ok()) return available.status();
  const int64_t rows = RowBytes(model_, budget_) + RoundedBytes();
  const int64_t scratch =
      static_cast<int64_t>(queues_.size()) * ScratchSpace::BytesFor(programs_, kMostLaunchNodes);
  const int64_t asked = values_.bytes() + rows + scratch;
  if (asked <= *available) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "model \"{}\": needs {} bytes of {}, {} are available: packed weights {}, rows "
      "{}, scratch {}",
      model_.name, asked, tools_.gpu->name(), *available, values_.bytes(), rows, scratch));
}

absl::StatusOr<RowArray> ModelLoader::MakeArray(int64_t stride, int32_t rows) const {
  auto memory = DeviceBuffer::Make(tools_.gpu, BytesOfRows(stride, rows));
  if (!memory.ok()) return memory.status();
  if (absl::Status s = tools_.trial->Zero(memory->at(), memory->bytes()); !s.ok()) return s;
  return RowArray{*std::move(memory), stride};
}

absl::Status ModelLoader::MakeTables() {
  const std::vector<TableRows> layout = LayTables(model_);
  for (size_t t = 0; t < layout.size(); ++t) {
    CudaTable& table = loaded_->tables_.emplace_back();
    table.rows = budget_.rows[t];
    for (const int64_t stride : layout[t].strides) {
      auto array = MakeArray(stride, table.rows);
      if (!array.ok()) return array.status();
      table.arrays.push_back(*std::move(array));
    }
    if (HasRounded(t)) {
      auto rounded = DeviceBuffer::Make(tools_.gpu, table.arrays[0].memory.bytes() / 2);
      if (!rounded.ok()) return rounded.status();
      table.rounded = *std::move(rounded);
      absl::Status s = tools_.trial->Zero(table.rounded.at(), table.rounded.bytes());
      if (!s.ok()) return s;
    }
    for (size_t c = 0; c < layout[t].columns.size(); ++c) {
      const Column& column = model_.tables[t].columns[c];
      const TableRows::Place& place = layout[t].columns[c];
      const RowArray& array = table.arrays[Index(place.array)];
      ColumnPlace& at = table.columns.emplace_back();
      at = {array.memory.as<float>() + place.offset, array.stride, column.width, nullptr, nullptr};
      if (IsRounded({TableId(static_cast<int64_t>(t)), ColumnId(static_cast<int64_t>(c))})) {
        at.rounded = table.rounded.as<unsigned short>() + place.offset;
      }
      if (column.type != ElementType::kInt32) continue;
      auto mirror = PinnedBuffer::Make(tools_.gpu, BytesOfRows(column.width, table.rows));
      if (!mirror.ok()) return mirror.status();
      at.mirror = mirror->as<int32_t>();
      table.mirrors.push_back(*std::move(mirror));
    }
  }
  return absl::OkStatus();
}

// All columns, as the kernels that begin and end tasks are told: those of each table, at places of their own.
absl::Status ModelLoader::BringColumns() {
  std::vector<cuda_abi::CopiedColumn> columns;
  for (const CudaTable& table : loaded_->tables_) {
    const size_t begin = columns.size();
    for (const ColumnPlace& c : table.columns) {
      columns.push_back({c.base, c.stride, c.width, c.mirror, c.rounded});
    }
    columns.resize(begin + cuda_abi::kMostTableColumns);
  }
  const auto bytes = static_cast<int64_t>(columns.size() * sizeof(columns[0]));
  auto memory = DeviceBuffer::Make(tools_.gpu, bytes);
  if (!memory.ok()) return memory.status();
  loaded_->copied_columns_ = *std::move(memory);
  return tools_.trial->Bring(loaded_->copied_columns_.at(), columns.data(), bytes);
}

cuda_abi::ColumnView ModelLoader::ColumnOf(const CellType& type, const Place& place) const {
  const auto [table, column] = ColumnNamed(type, place);
  const ColumnPlace& at = loaded_->table(table).columns[Index(column.value())];
  return {at.base + place.offset, at.stride,
          at.rounded == nullptr ? nullptr : at.rounded + place.offset};
}

absl::StatusOr<CellLaunch> ModelLoader::LaunchOf(size_t t, const ScratchSpace& scratch,
                                                 const LaunchQueue& queue) const {
  const CellType& type = model_.types[t];
  const auto column = [&](const Place& place) { return ColumnOf(type, place); };
  const auto value = [&](const CudaValue& v) { return values_.At(loaded_->values_, DataOf(t, v)); };
  auto launch = MakeCellLaunch(cells_[t], programs_[t], loaded_->module_,
                               {column, value, scratch, queue.now()});
  if (!launch.ok()) return launch.status();
  const auto* const columns = loaded_->copied_columns_.as<const cuda_abi::CopiedColumn>();
  launch->tables = columns;
  launch->outputs = columns + type.out.value() * cuda_abi::kMostTableColumns;
  launch->num_outputs = static_cast<int>(loaded_->table(type.out).columns.size());
  return launch;
}

absl::Status ModelLoader::RecordLaunches() {
  for (LaunchQueue* const queue : queues_) {
    auto scratch = ScratchSpace::Make(tools_.gpu, programs_, kMostLaunchNodes);
    if (!scratch.ok()) return scratch.status();
    CudaModel::PerQueue& of_queue = loaded_->queues_.emplace_back();
    of_queue.scratch = *std::move(scratch);
    of_queue.rows = std::make_unique<GroupRows>(model_, budget_);
    for (size_t t = 0; t < cells_.size(); ++t) {
      const auto launch = LaunchOf(t, of_queue.scratch, *queue);
      if (!launch.ok()) return launch.status();
      auto& by_tasks = of_queue.graphs.emplace_back();
      for (int tasks = 1; tasks <= queue->options().tasks_a_launch; tasks *= 2) {
        std::vector<LaunchGraph>& graphs = by_tasks.emplace_back();
        for (int size = 0; size < kLaunchSizes; ++size) {
          auto graph = queue->Capture(*launch, LaunchNodes(size), tasks);
          if (!graph.ok()) return graph.status();
          graphs.push_back(*std::move(graph));
        }
      }
    }
  }
  return absl::OkStatus();
}

// With the first queue's scratch: nobody else runs this model yet.
absl::Status ModelLoader::TryThem() {
  std::vector<CellLaunch> launches;
  for (size_t t = 0; t < cells_.size(); ++t) {
    auto launch = LaunchOf(t, loaded_->queues_[0].scratch, *tools_.trial);
    if (!launch.ok()) return launch.status();
    launches.push_back(*std::move(launch));
  }
  return TryCells(tools_.gpu, *tools_.trial, *loaded_, launches);
}

absl::StatusOr<std::unique_ptr<LoadedModel>> ModelLoader::Load() {
  auto programs = LowerCells(model_, kCudaLimits);
  if (!programs.ok()) return programs.status();
  programs_ = *std::move(programs);
  auto prepared = PrepareValues(tools_, model_.types, programs_);
  if (!prepared.ok()) return prepared.status();
  prepared_ = *std::move(prepared);
  if (absl::Status s = CheckWeights(); !s.ok()) return s;
  FindRounded();
  if (absl::Status s = WriteKernels(); !s.ok()) return s;
  if (absl::Status s = CheckFits(); !s.ok()) return s;
  auto values = values_.Bring(tools_.gpu, *tools_.trial);
  if (!values.ok()) return values.status();
  loaded_->values_ = *std::move(values);
  if (absl::Status s = MakeTables(); !s.ok()) return s;
  if (absl::Status s = BringColumns(); !s.ok()) return s;
  if (absl::Status s = RecordLaunches(); !s.ok()) return s;
  if (absl::Status s = TryThem(); !s.ok()) return s;
  loaded_->weight_bytes_ = values_.bytes();
  loaded_->row_bytes_ =
      RowBytes(model_, budget_) + RoundedBytes() + MirrorBytes(model_, budget_) +
      static_cast<int64_t>(queues_.size()) * ScratchSpace::BytesFor(programs_, kMostLaunchNodes);
  return std::move(loaded_);
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadCudaModel(const LoadTools& tools,
                                                           const std::vector<LaunchQueue*>& queues,
                                                           const Model& model,
                                                           const RowBudget& budget) {
  if (absl::Status s = model.Validate(); !s.ok()) return s;
  if (absl::Status s = CheckBudget(model, budget); !s.ok()) return s;
  const Precision computed = kCudaLimits.Computed(model.precision);
  if (computed == Precision::kW8) {
    return absl::UnimplementedError(
        fmt::format("model \"{}\": precision is {}, a CUDA device computes {}, {} and {}: serve it "
                    "on a CPU (--devices)",
                    model.name, Name(model.precision), Name(Precision::kFp32),
                    Name(Precision::kTf32), Name(Precision::kBf16)));
  }
  return ModelLoader(tools, queues, model, budget).Load();
}

}  // namespace cellbatch::cuda
