#include "cells/recurrent_columns.h"

#include <algorithm>
#include <utility>

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

// Columns of all tables, numbered one table after the other.
class Columns {
 public:
  Columns(const Model& model, bool stops) : model_(model) {
    for (const TableSpec& table : model.tables) {
      first_.push_back(size_);
      size_ += table.columns.size();
    }
    readers_.resize(size_);
    recurrent_.resize(size_);
    for (const CellType& type : model.types) {
      for (size_t c = 0; c < type.definition->columns().size(); ++c) AddReads(type, c);
    }
    for (size_t n = 0; n < size_; ++n) recurrent_[n] = Reaches(n, n);
    if (stops) MarkWords();
    while (MarkWhatRecurrentTypesRead()) {
    }
  }

  bool IsRecurrent(const CellType& type, size_t column) const {
    return recurrent_[Number(type.out, type.definition->columns()[column])];
  }
  bool AnyOf(const CellType& type) const {
    for (size_t c = 0; c < type.definition->columns().size(); ++c) {
      if (IsRecurrent(type, c)) return true;
    }
    return false;
  }
  std::vector<std::vector<bool>> ByTable() const {
    std::vector<std::vector<bool>> all;
    for (size_t t = 0; t < first_.size(); ++t) {
      const auto begin = recurrent_.begin() + static_cast<int64_t>(first_[t]);
      all.emplace_back(begin, begin + static_cast<int64_t>(model_.tables[t].columns.size()));
    }
    return all;
  }

 private:
  size_t Number(TableId table, const Column& column) const {
    return first_[Index(table.value())] + Index(model_.table(table).Find(column.name).value());
  }

  // Whatever inputs' columns output `column` is computed from.
  void AddReads(const CellType& type, size_t column) {
    const CellDefinition& cell = *type.definition;
    std::vector<bool> needed(cell.ops().size());
    needed[Index(cell.outputs()[column].value.value())] = true;
    const size_t left = Number(type.out, cell.columns()[column]);
    for (size_t v = needed.size(); v-- > 0;) {
      if (!needed[v]) continue;
      const Op& op = cell.ops()[v];
      for (const ValueId arg : op.args) {
        if (arg.valid()) needed[Index(arg.value())] = true;
      }
      if (op.kind != OpKind::kInput) continue;
      const Input& input = cell.inputs()[Index(op.attr[0])];
      readers_[Number(type.in[Index(op.attr[0])], input.reads[Index(op.attr[1])])].push_back(left);
    }
  }

  bool Reaches(size_t from, size_t to) const {
    std::vector<bool> seen(size_);
    std::vector<size_t> left = {from};
    while (!left.empty()) {
      const size_t at = left.back();
      left.pop_back();
      for (const size_t reader : readers_[at]) {
        if (reader == to) return true;
        if (seen[reader]) continue;
        seen[reader] = true;
        left.push_back(reader);
      }
    }
    return false;
  }

  void MarkWords() {
    for (const CellType& type : model_.types) {
      if (!type.definition->carry().has_value()) continue;
      for (const Column& column : type.definition->columns()) {
        if (column.type == ElementType::kInt32) recurrent_[Number(type.out, column)] = true;
      }
    }
  }

  bool MarkWhatRecurrentTypesRead() {
    bool any = false;
    for (const CellType& type : model_.types) {
      if (!AnyOf(type)) continue;
      for (size_t i = 0; i < type.in.size(); ++i) {
        for (const Column& column : type.definition->inputs()[i].reads) {
          const size_t read = Number(type.in[i], column);
          any = any || !recurrent_[read];
          recurrent_[read] = true;
        }
      }
    }
    return any;
  }

  const Model& model_;
  std::vector<size_t> first_;  // by table
  size_t size_ = 0;
  std::vector<std::vector<size_t>> readers_;  // by column: those computed from it
  std::vector<bool> recurrent_;
};

}  // namespace

std::vector<std::vector<bool>> RecurrentColumns(const Model& model, bool stops) {
  return Columns(model, stops).ByTable();
}

std::vector<CellTypeId> TypesThatMayWait(const Model& model) {
  const Columns columns(model, /*stops=*/true);
  std::vector<CellTypeId> waiting;
  for (const CellType& type : model.types) {
    if (!columns.AnyOf(type)) waiting.push_back(type.id);
  }
  if (waiting.size() == model.types.size()) waiting.clear();
  return waiting;
}

}  // namespace cellbatch
