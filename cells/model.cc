#include "cells/model.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {
namespace {

// Checks one model; every error names the table or cell type and what disagrees.
class ModelChecker {
 public:
  explicit ModelChecker(const Model& model) : model_(model) {}

  absl::Status CheckTable(size_t index) const;
  absl::Status CheckType(size_t index) const;

 private:
  template <typename... Args>
  absl::Status Wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return absl::InvalidArgumentError(fmt::format("model \"{}\": {}", model_.name,
                                                  fmt::format(text, std::forward<Args>(args)...)));
  }
  bool Exists(TableId id) const {
    return id.valid() && static_cast<size_t>(id.value()) < model_.tables.size();
  }
  absl::Status CheckWeights(const CellType& type) const;
  absl::Status CheckWeight(const CellType& type, size_t index) const;
  absl::Status CheckReads(const CellType& type, size_t input) const;
  absl::Status CheckLeaves(const CellType& type) const;
  absl::Status CheckLimits(const CellType& type) const;

  const Model& model_;
};

absl::Status ModelChecker::CheckTable(size_t index) const {
  const TableSpec& table = model_.tables[index];
  if (table.name.empty()) return Wrong("table {} has no name", index);
  if (table.columns.empty() || table.columns.size() > kMaxColumns) {
    return Wrong("table \"{}\" has {} columns, allowed are 1 to {}", table.name,
                 table.columns.size(), kMaxColumns);
  }
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const Column& column = table.columns[i];
    if (column.width < 1) {
      return Wrong("table \"{}\": column \"{}\" has {} elements", table.name, column.name,
                   column.width);
    }
    for (size_t j = 0; j < i; ++j) {
      if (table.columns[j].name == column.name) {
        return Wrong("table \"{}\" has two columns named \"{}\"", table.name, column.name);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ModelChecker::CheckWeight(const CellType& type, size_t index) const {
  const Parameter& parameter = type.definition->parameters()[index];
  const Weight& weight = type.weights[index];
  if (weight.shape != parameter.shape) {
    return Wrong("cell type \"{}\": parameter \"{}\" is {}, its weights are {}", type.name,
                 parameter.name, parameter.shape.ToString(), weight.shape.ToString());
  }
  if (weight.data == nullptr) {
    return Wrong("cell type \"{}\": parameter \"{}\" has no weights", type.name, parameter.name);
  }
  const float* const end = weight.data.get() + weight.shape.size();
  const float* const bad = std::find_if(static_cast<const float*>(weight.data.get()), end,
                                        [](float v) { return !std::isfinite(v); });
  if (bad == end) return absl::OkStatus();
  return Wrong("cell type \"{}\": parameter \"{}\": element {} is {}", type.name, parameter.name,
               bad - weight.data.get(), *bad);
}

absl::Status ModelChecker::CheckWeights(const CellType& type) const {
  const size_t expected = type.definition->parameters().size();
  if (type.weights.size() != expected) {
    return Wrong("cell type \"{}\": {} weights, cell \"{}\" has {} parameters", type.name,
                 type.weights.size(), type.definition->name(), expected);
  }
  for (size_t i = 0; i < expected; ++i) {
    if (absl::Status s = CheckWeight(type, i); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status ModelChecker::CheckReads(const CellType& type, size_t index) const {
  const Input& input = type.definition->inputs()[index];
  const TableId id = type.in[index];
  if (!Exists(id)) {
    return Wrong("cell type \"{}\": input \"{}\" reads table {}, there are {}", type.name,
                 input.name, id.value(), model_.tables.size());
  }
  const TableSpec& table = model_.table(id);
  for (const Column& read : input.reads) {
    const ColumnId found = table.Find(read.name);
    if (!found.valid()) {
      return Wrong("cell type \"{}\": input \"{}\" reads column \"{}\", table \"{}\" has {}",
                   type.name, input.name, read.name, table.name, ColumnsText(table.columns));
    }
    const Column& there = table.columns[static_cast<size_t>(found.value())];
    if (there != read) {
      return Wrong(
          "cell type \"{}\": input \"{}\" reads column \"{}\" as {}[{}], table \"{}\" has "
          "{}[{}]",
          type.name, input.name, read.name, Name(read.type), read.width, table.name,
          Name(there.type), there.width);
    }
  }
  const bool is_carry = type.definition->carry() == InputId(static_cast<int64_t>(index));
  if (is_carry && id != type.out) {
    return Wrong("cell type \"{}\": carry \"{}\" reads table {}, the cell writes table {}",
                 type.name, input.name, id.value(), type.out.value());
  }
  return absl::OkStatus();
}

absl::Status ModelChecker::CheckLeaves(const CellType& type) const {
  if (!Exists(type.out)) {
    return Wrong("cell type \"{}\" writes table {}, there are {}", type.name, type.out.value(),
                 model_.tables.size());
  }
  const TableSpec& table = model_.table(type.out);
  const absl::Span<const Column> leaves = type.definition->columns();
  if (leaves != absl::MakeConstSpan(table.columns)) {
    return Wrong("cell type \"{}\" leaves {}, table \"{}\" has {}", type.name, ColumnsText(leaves),
                 table.name, ColumnsText(table.columns));
  }
  return absl::OkStatus();
}

absl::Status ModelChecker::CheckLimits(const CellType& type) const {
  if (type.min_batch < 1) {
    return Wrong("cell type \"{}\": min_batch is {}, the least is 1", type.name, type.min_batch);
  }
  if (type.max_batch != 0 && type.max_batch < type.min_batch) {
    return Wrong("cell type \"{}\": max_batch is {}, min_batch is {}", type.name, type.max_batch,
                 type.min_batch);
  }
  return absl::OkStatus();
}

absl::Status ModelChecker::CheckType(size_t index) const {
  const CellType& type = model_.types[index];
  if (type.name.empty()) return Wrong("cell type {} has no name", index);
  if (type.id != CellTypeId(static_cast<int64_t>(index))) {
    return Wrong("cell type \"{}\" has id {}, it is number {}", type.name, type.id.value(), index);
  }
  for (size_t i = 0; i < index; ++i) {
    if (model_.types[i].name == type.name) {
      return Wrong("two cell types are named \"{}\"", type.name);
    }
  }
  if (type.definition == nullptr) return Wrong("cell type \"{}\" has no definition", type.name);
  if (type.precision != model_.precision) {
    return Wrong("cell type \"{}\" is in {}, the model in {}", type.name, Name(type.precision),
                 Name(model_.precision));
  }
  if (absl::Status s = CheckLimits(type); !s.ok()) return s;
  if (absl::Status s = CheckWeights(type); !s.ok()) return s;
  if (absl::Status s = CheckLeaves(type); !s.ok()) return s;
  const size_t inputs = type.definition->inputs().size();
  if (type.in.size() != inputs) {
    return Wrong("cell type \"{}\": tables for {} inputs, cell \"{}\" has {}", type.name,
                 type.in.size(), type.definition->name(), inputs);
  }
  for (size_t i = 0; i < inputs; ++i) {
    if (absl::Status s = CheckReads(type, i); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace

const char* Name(WireType type) {
  switch (type) {
    case WireType::kInt32:
      return "INT32";
    case WireType::kInt64:
      return "INT64";
    case WireType::kFp32:
      return "FP32";
    case WireType::kBytes:
      return "BYTES";
  }
  return "?";
}

int64_t TableSpec::row_bytes() const {
  int64_t bytes = 0;
  for (const Column& c : columns) bytes += c.bytes();
  return bytes;
}

ColumnId TableSpec::Find(std::string_view column) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == column) return ColumnId(static_cast<int64_t>(i));
  }
  return ColumnId();
}

absl::Status Model::Validate() const {
  const ModelChecker checker(*this);
  for (size_t i = 0; i < tables.size(); ++i) {
    if (absl::Status s = checker.CheckTable(i); !s.ok()) return s;
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (absl::Status s = checker.CheckType(i); !s.ok()) return s;
  }
  if (!(weight > 0.0)) {
    return absl::InvalidArgumentError(
        fmt::format("model \"{}\": weight is {}, it must be above 0", name, weight));
  }
  if (priority_levels < 1 || priority_levels > kMostPriorityLevels) {
    return absl::InvalidArgumentError(
        fmt::format("model \"{}\": priority_levels is {}, allowed are 1 to {}", name,
                    priority_levels, kMostPriorityLevels));
  }
  if (default_priority_level < 1 || default_priority_level > priority_levels) {
    return absl::InvalidArgumentError(
        fmt::format("model \"{}\": default_priority_level is {}, allowed are 1 to {}", name,
                    default_priority_level, priority_levels));
  }
  return absl::OkStatus();
}

}  // namespace cellbatch
