#include "server/record/recorded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cells/cell_graph.h"
#include "cells/empty_cell.h"

namespace cellbatch {
namespace {

constexpr int kMostTables = 1024, kMostTypes = 1024, kMostWidth = 1 << 20;

size_t Index(int64_t i) { return static_cast<size_t>(i); }

int PlaceOf(const TableSpec& table, const Column& column) {
  const auto at = std::find_if(table.columns.begin(), table.columns.end(),
                               [&](const Column& c) { return c.name == column.name; });
  return static_cast<int>(at - table.columns.begin());
}

absl::Status Wrong(const disk::RecordedLane& lane, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("recorded model \"{}\": {}", lane.model(), what));
}

absl::Status ReadTables(const disk::RecordedLane& lane, Model& model) {
  if (lane.tables_size() > kMostTables || lane.types_size() > kMostTypes) {
    return Wrong(lane, fmt::format("{} tables, {} types", lane.tables_size(), lane.types_size()));
  }
  for (const disk::RecordedTable& table : lane.tables()) {
    TableSpec& spec = model.tables.emplace_back();
    spec.name = table.name();
    if (table.columns_size() > kMaxColumns) return Wrong(lane, "a table of too many columns");
    for (const disk::RecordedColumn& column : table.columns()) {
      const bool sane = column.type() >= 0 &&
                        column.type() <= static_cast<int>(ElementType::kInt32) &&
                        column.width() >= 1 && column.width() <= kMostWidth;
      if (!sane) return Wrong(lane, fmt::format("column \"{}\" is no column", column.name()));
      spec.columns.push_back(
          {column.name(), static_cast<ElementType>(column.type()), column.width()});
    }
  }
  return absl::OkStatus();
}

// Columns of a table by their numbers; none: there are no such.
std::optional<std::vector<Column>> ColumnsOf(
    const Model& model, int32_t table, const google::protobuf::RepeatedField<int32_t>& numbers) {
  if (table < 0 || Index(table) >= model.tables.size()) return std::nullopt;
  const TableSpec& spec = model.tables[Index(table)];
  std::vector<Column> columns;
  for (const int32_t number : numbers) {
    if (number < 0 || Index(number) >= spec.columns.size()) return std::nullopt;
    columns.push_back(spec.columns[Index(number)]);
  }
  return columns;
}

absl::Status ReadType(const disk::RecordedLane& lane, const disk::RecordedType& type,
                      Model& model) {
  const auto wrong = [&](std::string_view what) {
    return Wrong(lane, fmt::format("type \"{}\" {}", type.name(), what));
  };
  CellType made;
  made.id = CellTypeId(static_cast<int64_t>(model.types.size()));
  made.name = type.name();
  std::vector<Input> inputs;
  if (type.inputs_size() > kMaxInputs) return wrong("has too many inputs");
  for (const disk::RecordedInput& input : type.inputs()) {
    std::optional<std::vector<Column>> reads = ColumnsOf(model, input.table(), input.columns());
    if (!reads) return wrong(fmt::format("reads no columns by \"{}\"", input.name()));
    made.in.push_back(TableId(input.table()));
    inputs.push_back({input.name(), *std::move(reads), input.sums() ? Arity::kSum : Arity::kOne});
  }
  const std::optional<std::vector<Column>> leaves = ColumnsOf(model, type.table(), type.leaves());
  if (!leaves) return wrong("leaves no columns");
  std::optional<InputId> carry;
  if (type.carry() != 0) carry = InputId(type.carry() - 1);
  if (type.carry() < 0 || type.carry() > type.inputs_size()) return wrong("carries no input");
  auto cell = EmptyCell(type.cell(), std::move(inputs), *leaves, carry);
  if (!cell.ok()) return wrong(std::string(cell.status().message()));
  made.definition = *std::move(cell);
  made.out = TableId(type.table());
  made.min_batch = std::max(type.min_batch(), 1);
  made.max_batch = std::max(type.max_batch(), 0);
  made.least_max_batch = std::max(type.least_max_batch(), 0);
  made.priority = type.priority();
  model.types.push_back(std::move(made));
  return absl::OkStatus();
}

}  // namespace

void DescribeModel(const Model& model, disk::RecordedLane& lane) {
  lane.set_model(model.name);
  lane.set_version(model.version);
  lane.set_weight(model.weight);
  lane.set_priority_levels(model.priority_levels);
  lane.set_default_priority_level(model.default_priority_level);
  lane.set_phases(model.unfold.phases);
  lane.set_ghosts(model.unfold.ghosts);
  lane.set_level_rows(model.unfold.level_rows);
  for (const TableSpec& table : model.tables) {
    disk::RecordedTable& to = *lane.add_tables();
    to.set_name(table.name);
    for (const Column& column : table.columns) {
      disk::RecordedColumn& c = *to.add_columns();
      c.set_name(column.name);
      c.set_type(static_cast<int>(column.type));
      c.set_width(column.width);
    }
  }
  for (const CellType& type : model.types) {
    disk::RecordedType& to = *lane.add_types();
    to.set_name(type.name);
    to.set_cell(type.definition->name());
    const absl::Span<const Input> inputs = type.definition->inputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      disk::RecordedInput& input = *to.add_inputs();
      input.set_name(inputs[i].name);
      input.set_table(type.in[i].value());
      input.set_sums(inputs[i].arity == Arity::kSum);
      for (const Column& column : inputs[i].reads) {
        input.add_columns(PlaceOf(model.table(type.in[i]), column));
      }
    }
    to.set_table(type.out.value());
    for (const Column& column : type.definition->columns()) {
      to.add_leaves(PlaceOf(model.table(type.out), column));
    }
    to.set_carry(type.definition->carry() ? type.definition->carry()->value() + 1 : 0);
    to.set_min_batch(type.min_batch);
    to.set_max_batch(type.max_batch);
    to.set_least_max_batch(type.least_max_batch);
    to.set_priority(type.priority);
  }
}

absl::StatusOr<std::shared_ptr<const Model>> ModelOf(const disk::RecordedLane& lane, ModelId id) {
  auto model = std::make_shared<Model>();
  model->id = id;
  model->name = lane.model();
  model->version = lane.version();
  model->weight = lane.weight();
  model->priority_levels = std::max(lane.priority_levels(), 1);
  model->default_priority_level = std::max(lane.default_priority_level(), 1);
  if (model->priority_levels > kMostPriorityLevels ||
      model->default_priority_level > model->priority_levels) {
    return Wrong(lane, "its priority levels are none");
  }
  if (!(model->weight > 0)) return Wrong(lane, "its weight is none");
  model->unfold = {.phases = std::max(lane.phases(), 1),
                   .ghosts = lane.ghosts(),
                   .level_rows = lane.level_rows()};
  if (model->unfold.phases > kMostPhases) return Wrong(lane, "it has too many phases");
  if (absl::Status s = ReadTables(lane, *model); !s.ok()) return s;
  for (const disk::RecordedType& type : lane.types()) {
    if (absl::Status s = ReadType(lane, type, *model); !s.ok()) return s;
  }
  return std::shared_ptr<const Model>(std::move(model));
}

}  // namespace cellbatch
