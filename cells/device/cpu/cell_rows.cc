#include "cells/device/cpu/cell_rows.h"

#include <algorithm>

#include "cells/check.h"

namespace cellbatch {

CellRows::CellRows(const CellDefinition& cell, int32_t input_rows, int32_t output_rows) {
  for (const Input& input : cell.inputs()) {
    columns_.inputs.emplace_back();
    for (const Column& c : input.reads) columns_.inputs.back().push_back(Make(c, input_rows));
  }
  for (const Column& c : cell.columns()) columns_.outputs.push_back(Make(c, output_rows));
}

int64_t CellRows::Bytes(const CellDefinition& cell, int32_t input_rows, int32_t output_rows) {
  int64_t floats = 0;
  for (const Input& input : cell.inputs()) {
    for (const Column& c : input.reads) floats += ColumnStride(c) * input_rows;
  }
  for (const Column& c : cell.columns()) floats += ColumnStride(c) * output_rows;
  return floats * static_cast<int64_t>(sizeof(float));
}

void CellRows::ZeroRow() {
  for (const std::vector<ColumnArray>& input : columns_.inputs) {
    for (const ColumnArray& c : input) std::fill_n(c.At(0), c.width, 0.0f);
  }
  columns_.zero_row = true;
}

ColumnArray CellRows::Make(const Column& column, int32_t rows) {
  const int64_t stride = ColumnStride(column);
  memory_.emplace_back(stride * rows);
  return {memory_.back().data(), stride, column.width, column.type};
}

void CellRows::Run(const PackedCell& cell, const Reads& reads, const std::vector<Row>& out,
                   CellScratch& scratch, const Cores& cores) const {
  WithLists(*cell.type().definition, reads, out,
            [&](const NodeLists& nodes) { RunCell(cell, columns_, nodes, scratch, cores); });
}

void CellRows::WithLists(const CellDefinition& cell, const Reads& reads,
                         const std::vector<Row>& out,
                         absl::FunctionRef<void(const NodeLists&)> run) const {
  const absl::Span<const Input> declared = cell.inputs();
  Check(reads.size() == declared.size(), "rows for each input of the cell");
  std::vector<std::vector<Row>> rows(reads.size());
  std::vector<std::vector<int32_t>> offsets(reads.size(), {0});
  InputRows inputs[kMaxInputs];
  for (size_t i = 0; i < reads.size(); ++i) {
    Check(reads[i].size() == out.size(), "rows for each node");
    for (const std::vector<Row>& node : reads[i]) {
      rows[i].insert(rows[i].end(), node.begin(), node.end());
      offsets[i].push_back(static_cast<int32_t>(rows[i].size()));
    }
    const bool sums = declared[i].arity == Arity::kSum;
    Check(sums || rows[i].size() == out.size(), "one row of an input that is no sum");
    inputs[i] = {rows[i].data(), sums ? offsets[i].data() : nullptr};
  }
  const auto num_nodes = static_cast<int32_t>(out.size());
  run({num_nodes, inputs, out.data()});
}

std::vector<std::vector<float>> CellRows::Left(Row row) const {
  std::vector<std::vector<float>> left;
  for (const ColumnArray& c : columns_.outputs) left.emplace_back(c.At(row), c.At(row) + c.width);
  return left;
}

}  // namespace cellbatch
