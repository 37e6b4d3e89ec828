#include "tests/ordering/zoo_graphs.h"

#include "cells/check.h"
#include "scheduler/offline/unfolded_graph.h"
#include "tests/bench/stepped.h"
#include "tests/zoo/workload.h"

namespace cellbatch::ordering {

TypedGraph ZooGraphs::Batch(size_t first, size_t count) const {
  Check(first + count <= requests.size(), "more requests than the workload has");
  TypedGraph batch(static_cast<int32_t>(types.size()));
  for (size_t i = first; i < first + count; ++i) batch.Append(requests[i]);
  return batch;
}

ZooGraphs UnfoldZoo(const std::string& workload) {
  const zoo::Workload made = zoo::MakeWorkload(workload, zoo::Sizes{}, 0);
  const std::shared_ptr<const Model> model = LoadWorkload(made, ModelId(0));
  ZooGraphs graphs;
  graphs.source = made.source;
  for (const CellType& type : model->types) {
    graphs.types.push_back(type.name);
    graphs.priorities.push_back(type.priority);
  }
  for (const zoo::Asked& asked : made.requests) {
    const auto request = MakeRequest(model, asked, made.paper_outputs, /*max_tasks_in_flight=*/2);
    AppendUnfolded(request->graph, *model,
                   graphs.requests.emplace_back(static_cast<int32_t>(model->types.size())));
  }
  return graphs;
}

}  // namespace cellbatch::ordering
