#include "tests/ordering/zoo_graphs.h"

#include "cells/check.h"
#include "scheduler/offline/unfolded_graph.h"
#include "tests/bench/stepped.h"
#include "tests/zoo/workload.h"

namespace cellbatch::ordering {
namespace {

// In the order in which AppendUnfolded has the nodes.
ZooGraphs::Rows RowsOf(const CellGraph& graph) {
  ZooGraphs::Rows found;
  for (const Subgraph& s : graph.subgraphs()) {
    for (int32_t t = 0; s.type.valid() && t < s.length; ++t) {
      found.tables.push_back(s.table);
      found.rows.push_back(s.first_row + t % s.ring);
    }
  }
  found.of_table.assign(graph.row_counts().begin(), graph.row_counts().end());
  return found;
}

}  // namespace

TypedGraph ZooGraphs::Batch(size_t first, size_t count) const {
  Check(first + count <= requests.size(), "more requests than the workload has");
  TypedGraph batch(static_cast<int32_t>(types.size()));
  for (size_t i = first; i < first + count; ++i) batch.Append(requests[i]);
  return batch;
}

std::vector<int64_t> ZooGraphs::BatchRows(size_t first, size_t count) const {
  Check(first + count <= rows.size(), "more requests than the workload has");
  constexpr int kTableAt = 40;
  std::vector<int64_t> bases(rows[first].of_table.size(), 0), batch;
  for (size_t i = first; i < first + count; ++i) {
    for (size_t v = 0; v < rows[i].rows.size(); ++v) {
      const int64_t table = rows[i].tables[v].value();
      batch.push_back((table << kTableAt) + bases[static_cast<size_t>(table)] + rows[i].rows[v]);
    }
    for (size_t t = 0; t < bases.size(); ++t) bases[t] += rows[i].of_table[t];
  }
  return batch;
}

ZooGraphs UnfoldZoo(const std::string& workload, const std::string& unfold, size_t most) {
  const zoo::Workload made = zoo::MakeWorkload(workload, zoo::Sizes{}, 0);
  const std::shared_ptr<const Model> model =
      LoadWorkload(made, ModelId(0), "unfold { " + unfold + " }\n");
  ZooGraphs graphs;
  graphs.source = made.source;
  graphs.phases = model->unfold.phases;
  for (const CellType& type : model->types) {
    graphs.types.push_back(type.name);
    graphs.priorities.push_back(type.priority);
  }
  for (const zoo::Asked& asked : made.requests) {
    if (graphs.requests.size() == most) break;
    const auto request = MakeRequest(model, asked, made.paper_outputs, /*max_tasks_in_flight=*/2);
    AppendUnfolded(request->graph, *model,
                   graphs.requests.emplace_back(static_cast<int32_t>(model->types.size())));
    graphs.rows.push_back(RowsOf(request->graph));
  }
  return graphs;
}

}  // namespace cellbatch::ordering
