#include "tests/bench/request_graphs.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "cells/check.h"
#include "scheduler/offline/graph_facts.h"
#include "scheduler/offline/replay.h"
#include "scheduler/offline/unfolded_graph.h"
#include "scheduler/policy/lb_greedy_policy.h"
#include "tests/bench/stepped.h"

namespace cellbatch {
namespace {

// Adds the nodes and values of one request.
class RequestReader {
 public:
  RequestReader(const CellGraph& graph, RequestGraphs& to) : graph_(graph), to_(to) {}

  void Read() {
    for (const Subgraph& s : graph_.subgraphs()) {
      first_.push_back(static_cast<int32_t>(to_.values.size()));
      s.type.valid() ? ReadCells(s) : ReadInput(s);
    }
  }

 private:
  void ReadInput(const Subgraph& s) {
    const int64_t bytes = to_.model->tables[static_cast<size_t>(s.table.value())].row_bytes();
    for (int32_t t = 0; t < s.length; ++t) to_.values.push_back({s.table, s.data + t * bytes});
  }

  void ReadCells(const Subgraph& s) {
    const CellDefinition& cell = *to_.model->type(s.type).definition;
    for (int32_t t = 0; t < s.length; ++t) {
      RequestNode node = {s.type, static_cast<int32_t>(to_.values.size()), {}};
      node.reads.resize(cell.inputs().size());
      for (const Link& link : graph_.links().subspan(static_cast<size_t>(s.first_link),
                                                     static_cast<size_t>(s.num_links))) {
        // A chain's node reads the one before; what is said of its carry is the first's.
        if (t > 0 && cell.carry() == link.input) continue;
        const int32_t value = ValueOf(link, t);
        if (value != kZeros) node.reads[static_cast<size_t>(link.input.value())].push_back(value);
      }
      if (t > 0 && cell.carry().has_value()) {
        node.reads[static_cast<size_t>(cell.carry()->value())] = {node.value - 1};
      }
      for (size_t i = 0; i < node.reads.size(); ++i) {
        const bool one = cell.inputs()[i].arity == Arity::kOne;
        if (one && node.reads[i].empty()) node.reads[i].push_back(kZeros);
      }
      to_.nodes.push_back(std::move(node));
      to_.values.push_back({s.table, nullptr});
    }
  }

  int32_t ValueOf(const Link& link, int32_t t) const {
    if (!link.from.valid()) return kZeros;
    const auto from = static_cast<size_t>(link.from.value());
    const int32_t last = graph_.subgraphs()[from].length - 1;
    return first_[from] + (link.first == kLastNode ? last : link.first + t * link.stride);
  }

  const CellGraph& graph_;
  RequestGraphs& to_;
  std::vector<int32_t> first_;  // by subgraph: its first value
};

// Which reader wants a value where: batch, input, place in it.
using Wish = std::tuple<int32_t, int32_t, int32_t>;
constexpr Wish kNoWish = {std::numeric_limits<int32_t>::max(), 0, 0};

class RowCounter {
 public:
  explicit RowCounter(const RequestGraphs& graphs) : graphs_(graphs) {
    numbered_.rows.assign(graphs.model->tables.size(), kZeroRow + 1);
    numbered_.row.assign(graphs.values.size(), kZeroRow);
  }
  void Number(int32_t value) {
    const TableId table = graphs_.values[static_cast<size_t>(value)].table;
    numbered_.row[static_cast<size_t>(value)] =
        numbered_.rows[static_cast<size_t>(table.value())]++;
  }
  NumberedRows Take(std::vector<std::vector<int32_t>> batches) {
    numbered_.batches = std::move(batches);
    return std::move(numbered_);
  }

 private:
  const RequestGraphs& graphs_;
  NumberedRows numbered_;
};

}  // namespace

RequestGraphs UnfoldRequests(const std::string& workload, int64_t hidden, size_t requests) {
  RequestGraphs graphs;
  graphs.workload = zoo::MakeWorkload(workload, zoo::Sizes::Benchmark(hidden), requests);
  graphs.model = LoadWorkload(graphs.workload, ModelId(0));
  TypedGraph typed(static_cast<int32_t>(graphs.model->types.size()));
  for (const zoo::Asked& asked : graphs.workload.requests) {
    graphs.requests.push_back(
        MakeRequest(graphs.model, asked, graphs.workload.paper_outputs, /*max_tasks_in_flight=*/2));
    RequestReader(graphs.requests.back()->graph, graphs).Read();
    AppendUnfolded(graphs.requests.back()->graph, *graphs.model, typed);
  }
  Check(typed.size() == static_cast<int32_t>(graphs.nodes.size()), "nodes in the same order");
  const GraphFacts facts(typed);
  graphs.batches = RunClosed(facts, LbGreedyPolicy()).schedule;
  return graphs;
}

NumberedRows ByRequest(const RequestGraphs& graphs) {
  RowCounter counter(graphs);
  for (size_t v = 0; v < graphs.values.size(); ++v) counter.Number(static_cast<int32_t>(v));
  return counter.Take(graphs.batches);
}

NumberedRows AcrossCells(const RequestGraphs& graphs) {
  std::vector<std::vector<int32_t>> batches = graphs.batches;
  std::vector<Wish> wishes(graphs.values.size(), kNoWish);
  const auto wish_of = [&](int32_t node) -> Wish& {
    return wishes[static_cast<size_t>(graphs.nodes[static_cast<size_t>(node)].value)];
  };
  for (size_t b = batches.size(); b-- > 0;) {
    std::stable_sort(batches[b].begin(), batches[b].end(),
                     [&](int32_t x, int32_t y) { return wish_of(x) < wish_of(y); });
    for (size_t place = 0; place < batches[b].size(); ++place) {
      const RequestNode& node = graphs.nodes[static_cast<size_t>(batches[b][place])];
      for (size_t i = 0; i < node.reads.size(); ++i) {
        const Wish here = {static_cast<int32_t>(b), static_cast<int32_t>(i),
                           static_cast<int32_t>(place)};
        for (const int32_t v : node.reads[i]) {
          if (v != kZeros)
            wishes[static_cast<size_t>(v)] = std::min(wishes[static_cast<size_t>(v)], here);
        }
      }
    }
  }
  RowCounter counter(graphs);
  std::vector<int32_t> inputs;
  for (size_t v = 0; v < graphs.values.size(); ++v) {
    if (graphs.values[v].data != nullptr) inputs.push_back(static_cast<int32_t>(v));
  }
  std::stable_sort(inputs.begin(), inputs.end(), [&](int32_t x, int32_t y) {
    return wishes[static_cast<size_t>(x)] < wishes[static_cast<size_t>(y)];
  });
  for (const int32_t v : inputs) counter.Number(v);
  for (const std::vector<int32_t>& batch : batches) {
    for (const int32_t node : batch) counter.Number(graphs.nodes[static_cast<size_t>(node)].value);
  }
  return counter.Take(std::move(batches));
}

}  // namespace cellbatch
