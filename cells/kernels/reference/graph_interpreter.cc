#include "cells/kernels/reference/graph_interpreter.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cells/check.h"

namespace cellbatch {
namespace {

// The rows every subgraph leaves: rows_[subgraph][node], all columns of its table.
class GraphRun {
 public:
  GraphRun(const Model& model, const CellGraph& graph) : model_(model), graph_(graph) {}

  std::vector<std::vector<double>> Run() {
    for (const Subgraph& s : graph_.subgraphs()) {
      rows_.emplace_back();
      s.type.valid() ? RunNodes(s) : ReadInput(s);
    }
    return Collect();
  }

 private:
  void ReadInput(const Subgraph& s);
  void RunNodes(const Subgraph& s);
  RowValues Gather(const Subgraph& s, InputId input, int32_t node) const;
  void Accumulate(const Input& input, TableId table, const RowValues& from, RowValues& to) const;
  std::vector<std::vector<double>> Collect() const;

  const Model& model_;
  const CellGraph& graph_;
  std::vector<std::vector<RowValues>> rows_;
};

void GraphRun::ReadInput(const Subgraph& s) {
  rows_.back().resize(static_cast<size_t>(s.length));
  const std::byte* at = s.data;
  const std::vector<Column>& columns = model_.table(s.table).columns;
  for (size_t c = 0; c < columns.size(); ++c) {
    const Column& column = columns[c];
    for (RowValues& row : rows_.back()) {
      ColumnValues& values = row.emplace_back();
      if (!s.brought[c]) {  // nobody reads it
        values.resize(static_cast<size_t>(column.width), 0.0);
        continue;
      }
      for (int32_t i = 0; i < column.width; ++i, at += 4) {
        float f;
        int32_t n;
        std::memcpy(&f, at, 4);
        std::memcpy(&n, at, 4);
        values.push_back(column.type == ElementType::kInt32 ? n : static_cast<double>(f));
      }
    }
  }
}

// Adds the columns that `input` reads from row `from` of `table` to `to`.
void GraphRun::Accumulate(const Input& input, TableId table, const RowValues& from,
                          RowValues& to) const {
  if (from.empty()) return;  // behind the end of a chain that stopped
  for (size_t c = 0; c < input.reads.size(); ++c) {
    const ColumnId column = model_.table(table).Find(input.reads[c].name);
    const ColumnValues& values = from[static_cast<size_t>(column.value())];
    for (size_t i = 0; i < values.size(); ++i) to[c][i] += values[i];
  }
}

// Of a chain with a stop: where it fell, or the last node.
const RowValues& LastOf(const std::vector<RowValues>& rows) {
  const auto last =
      std::find_if(rows.rbegin(), rows.rend(), [](const RowValues& row) { return !row.empty(); });
  return *last;
}

RowValues GraphRun::Gather(const Subgraph& s, InputId input, int32_t node) const {
  const CellType& type = model_.type(s.type);
  const Input& spec = type.definition->inputs()[static_cast<size_t>(input.value())];
  const TableId table = type.in[static_cast<size_t>(input.value())];
  RowValues row = ZeroRow(spec);
  if (type.definition->carry() == input && node > 0) {
    Accumulate(spec, table, rows_.back().back(), row);
    return row;
  }
  for (int32_t l = 0; l < s.num_links; ++l) {
    const Link& link = graph_.links()[static_cast<size_t>(s.first_link + l)];
    if (link.input != input || link.from == kZeroSource) continue;
    const std::vector<RowValues>& read = rows_[static_cast<size_t>(link.from.value())];
    const int32_t from = link.first + (type.definition->carry() == input ? 0 : node * link.stride);
    Accumulate(spec, table,
               link.first == kLastNode ? LastOf(read) : read[static_cast<size_t>(from)], row);
  }
  return row;
}

void GraphRun::RunNodes(const Subgraph& s) {
  const CellType& type = model_.type(s.type);
  bool stopped = false;
  for (int32_t node = 0; node < s.length; ++node) {
    std::vector<RowValues> inputs;
    for (size_t i = 0; i < type.in.size(); ++i) {
      inputs.push_back(Gather(s, InputId(static_cast<int64_t>(i)), node));
    }
    rows_.back().push_back(stopped ? RowValues()
                                   : InterpretNode(*type.definition, type.weights, inputs));
    if (stopped || !s.stop.column.valid()) continue;
    stopped = rows_.back().back()[static_cast<size_t>(s.stop.column.value())][0] == s.stop.value;
  }
}

std::vector<std::vector<double>> GraphRun::Collect() const {
  std::vector<std::vector<double>> answers;
  for (const ReturnedTensor& t : graph_.tensors()) answers.emplace_back(t.bytes.size() / 4, 0.0);
  for (size_t s = 0; s < rows_.size(); ++s) {
    const Subgraph& subgraph = graph_.subgraphs()[s];
    for (int32_t r = 0; r < subgraph.num_returns; ++r) {
      const ReturnPiece& piece = graph_.returns()[static_cast<size_t>(subgraph.first_return + r)];
      for (int32_t i = 0; i < piece.nodes.count; ++i) {
        const RowValues& row = rows_[s][static_cast<size_t>(piece.nodes.first + i)];
        if (row.empty()) continue;
        const ColumnValues& values = row[static_cast<size_t>(piece.column.value())];
        const int64_t at = (piece.where.offset_bytes + i * piece.where.stride_bytes) / 4;
        std::vector<double>& answer = answers[static_cast<size_t>(piece.where.tensor)];
        Check(at >= 0 &&
                  at + static_cast<int64_t>(values.size()) <= static_cast<int64_t>(answer.size()),
              "a returned piece lies inside its tensor");
        for (size_t v = 0; v < values.size(); ++v) answer[static_cast<size_t>(at) + v] = values[v];
      }
    }
  }
  return answers;
}

}  // namespace

std::vector<std::vector<double>> InterpretGraph(const Model& model, const CellGraph& graph) {
  return GraphRun(model, graph).Run();
}

}  // namespace cellbatch
