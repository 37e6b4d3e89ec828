// From a request to a graph. What a model's cells look like was settled by Create
// (dag_unfolder_create.cc).
#include "cells/unfold/dag_unfolder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cells/unfold/chain_unfolder.h"

namespace cellbatch {
namespace {

constexpr int64_t kElement = 4;
constexpr int64_t kEdgeColumns = 3;  // from, to, input

size_t Index(int64_t i) { return static_cast<size_t>(i); }

absl::Status WrongEdge(int64_t index, std::string_view what) {
  return WrongInput(kEdgesInput, fmt::format("edge {} {}", index, what));
}

}  // namespace

struct DagUnfolder::Plan {
  int32_t nodes = 0;
  absl::Span<const int32_t> types;            // by node
  std::vector<int32_t> number;                // by node: among those of its type
  std::vector<int32_t> count;                 // by type
  absl::Span<const int32_t> edges;            // [E, 3]
  std::vector<int32_t> first_edge;            // by node: into `into`; and the end
  std::vector<int32_t> into;                  // edges by where they lead, then in their order
  std::vector<std::vector<SubgraphId>> rows;  // by type and input: what the request brings
  int32_t output = -1, node_outputs = -1;     // tensors; -1: not asked for
};

// Walks the nodes in their order.
class DagUnfolder::Builder {
 public:
  Builder(const DagUnfolder& unfolder, const Plan& plan, CellGraph& graph)
      : u_(unfolder), plan_(plan), graph_(graph), places_(Index(plan.nodes)) {
    links_.reserve(kMaxInputs);
  }

  void Build() {
    for (int32_t node = 0; node < plan_.nodes;) {
      const int32_t count = SetFrom(node);
      AddNodes(node, count);
      node += count;
    }
    if (plan_.output < 0) return;
    int32_t last = plan_.nodes - 1;
    while (!IsOutput(last)) --last;  // AddTensors saw one
    const Place& place = places_[Index(last)];
    graph_.Return(place.from, OutputOf(last), {place.node, 1}, {plan_.output, 0, 0});
  }

 private:
  struct Place {
    SubgraphId from;
    int32_t node = 0;
  };

  const Type& TypeOfNode(int32_t node) const { return u_.types_[Index(plan_.types[Index(node)])]; }
  bool IsOutput(int32_t node) const {
    return u_.output_type_ < 0 || plan_.types[Index(node)] == u_.output_type_;
  }
  ColumnId OutputOf(int32_t node) const { return TypeOfNode(node).output; }
  bool Independent(int32_t node) const {
    return plan_.first_edge[Index(node)] == plan_.first_edge[Index(node) + 1];
  }

  // How many nodes from here on may be one set.
  int32_t SetFrom(int32_t node) const {
    if (!TypeOfNode(node).sets() || !Independent(node)) return 1;
    int32_t end = node + 1;
    while (end < plan_.nodes && plan_.types[Index(end)] == plan_.types[Index(node)] &&
           Independent(end)) {
      ++end;
    }
    return end - node;
  }

  void AddNodes(int32_t node, int32_t count) {
    const Type& type = TypeOfNode(node);
    const std::vector<SubgraphId>& rows = plan_.rows[Index(plan_.types[Index(node)])];
    links_.clear();
    for (size_t i = 0; i < type.ports.size(); ++i) {
      if (!type.ports[i].brought) continue;
      links_.push_back({rows[i], InputId(static_cast<int64_t>(i)), plan_.number[Index(node)], 1});
    }
    for (int32_t e = plan_.first_edge[Index(node)]; e < plan_.first_edge[Index(node) + 1]; ++e) {
      const absl::Span<const int32_t> edge =
          plan_.edges.subspan(Index(plan_.into[Index(e)] * kEdgeColumns), kEdgeColumns);
      const Place& from = places_[Index(edge[0])];
      links_.push_back({from.from, InputId(edge[2]), from.node, 0});
    }
    graph_.SetPhase(type.phase);
    const SubgraphId made = graph_.Add(type.id, count, links_);
    for (int32_t i = 0; i < count; ++i) places_[Index(node + i)] = {made, i};
    if (plan_.node_outputs < 0 || !IsOutput(node)) return;
    const int64_t row = u_.output_width_ * kElement;
    const int64_t first = u_.output_type_ < 0 ? node : plan_.number[Index(node)];
    graph_.Return(made, type.output, {0, count}, {plan_.node_outputs, first * row, row});
  }

  const DagUnfolder& u_;
  const Plan& plan_;
  CellGraph& graph_;
  std::vector<Place> places_;  // by node
  std::vector<Link> links_;    // of one subgraph
};

absl::Status DagUnfolder::ReadNodes(const RequestInput& input, Plan& plan) const {
  const InputTensor* tensor = input.Find(kNodeTypesInput);
  if (tensor == nullptr) return WrongInput(kNodeTypesInput, "missing");
  if (absl::Status s = CheckTensor(*tensor, WireType::kInt32, {-1}); !s.ok()) return s;
  if (tensor->dims[0] > max_nodes_) {
    return WrongInput(kNodeTypesInput,
                      fmt::format("{} nodes, the model takes {}", tensor->dims[0], max_nodes_));
  }
  plan.nodes = static_cast<int32_t>(tensor->dims[0]);
  plan.types = Int32s(*tensor);
  plan.count.assign(types_.size(), 0);
  plan.number.reserve(plan.types.size());
  for (const int32_t type : plan.types) {
    if (type < 0 || Index(type) >= types_.size()) {
      return WrongInput(kNodeTypesInput, fmt::format("node {} is of type {}, the model has 0 to {}",
                                                     plan.number.size(), type, types_.size() - 1));
    }
    plan.number.push_back(plan.count[Index(type)]++);
  }
  return absl::OkStatus();
}

absl::Status DagUnfolder::CheckEdge(const Plan& plan, int64_t index,
                                    absl::Span<const int32_t> edge) const {
  const auto [from, to, input] = std::array<int32_t, 3>{edge[0], edge[1], edge[2]};
  for (const int32_t end : {from, to}) {
    if (end >= 0 && end < plan.nodes) continue;
    return WrongEdge(index, fmt::format("leads from node {} to node {}, there are {} nodes", from,
                                        to, plan.nodes));
  }
  if (from >= to) {
    return WrongEdge(index, fmt::format("leads from node {} to node {}; edges lead from lower to "
                                        "higher numbers",
                                        from, to));
  }
  const Type& source = types_[Index(plan.types[Index(from)])];
  const Type& target = types_[Index(plan.types[Index(to)])];
  if (input < 0 || Index(input) >= target.ports.size()) {
    return WrongEdge(index, fmt::format("leads to input {} of node {}, its type \"{}\" has {}",
                                        input, to, target.name, target.ports.size()));
  }
  const Port& port = target.ports[Index(input)];
  if (port.brought) {
    return WrongEdge(index, fmt::format("leads to input {} of node {}; the request brings {}",
                                        input, to, port.name));
  }
  if (port.table == source.out) return absl::OkStatus();
  return WrongEdge(
      index, fmt::format("leads from node {} of type \"{}\" to {} of node {}, which "
                         "reads other columns: of {}, and \"{}\" leaves {}",
                         from, source.name, port.name, to, port.reads, source.name, source.leaves));
}

absl::Status DagUnfolder::ReadEdges(const RequestInput& input, Plan& plan) const {
  plan.first_edge.assign(Index(plan.nodes) + 1, 0);
  const InputTensor* tensor = FindRows(input, kEdgesInput);
  if (tensor == nullptr) return absl::OkStatus();
  if (absl::Status s = CheckTensor(*tensor, WireType::kInt32, {-1, kEdgeColumns}); !s.ok()) {
    return s;
  }
  const int64_t count = tensor->dims[0];
  if (count > max_nodes_ * kMaxEdgesPerNode) {
    return WrongInput(kEdgesInput, fmt::format("{} edges, the model takes {}", count,
                                               max_nodes_ * kMaxEdgesPerNode));
  }
  plan.edges = Int32s(*tensor);
  // Grouped by where they lead, in their order: counted, then placed.
  for (int64_t e = 0; e < count; ++e) {
    const absl::Span<const int32_t> edge = plan.edges.subspan(Index(e * kEdgeColumns), 3);
    if (absl::Status s = CheckEdge(plan, e, edge); !s.ok()) return s;
    ++plan.first_edge[Index(edge[1]) + 1];
  }
  for (size_t n = 1; n < plan.first_edge.size(); ++n) plan.first_edge[n] += plan.first_edge[n - 1];
  std::vector<int32_t> next(plan.first_edge.begin(), plan.first_edge.end() - 1);
  plan.into.resize(Index(count));
  for (int64_t e = 0; e < count; ++e) {
    const int32_t to = plan.edges[Index(e * kEdgeColumns + 1)];
    plan.into[Index(next[Index(to)]++)] = static_cast<int32_t>(e);
  }
  return CheckPorts(plan);
}

// At most one edge into an input that does not sum, and kMaxSumLinks into one that does.
absl::Status DagUnfolder::CheckPorts(const Plan& plan) const {
  for (int32_t node = 0; node < plan.nodes; ++node) {
    std::array<int32_t, kMaxInputs> edges = {};
    const Type& type = types_[Index(plan.types[Index(node)])];
    for (int32_t i = plan.first_edge[Index(node)]; i < plan.first_edge[Index(node) + 1]; ++i) {
      const int64_t e = plan.into[Index(i)];
      const int32_t input = plan.edges[Index(e * kEdgeColumns + 2)];
      const Port& port = type.ports[Index(input)];
      const int32_t most = port.sums ? kMaxSumLinks : 1;
      if (++edges[Index(input)] <= most) continue;
      return WrongEdge(e, fmt::format("is number {} into {} of node {}, which takes {}",
                                      edges[Index(input)], port.name, node, most));
    }
  }
  return absl::OkStatus();
}

// The request's rows of every type that has nodes.
absl::Status DagUnfolder::AddRows(const RequestInput& input, Plan& plan, CellGraph& graph) const {
  plan.rows.resize(types_.size());
  for (size_t t = 0; t < types_.size(); ++t) {
    plan.rows[t].resize(types_[t].ports.size());
    for (size_t i = 0; i < types_[t].ports.size(); ++i) {
      const Port& port = types_[t].ports[i];
      if (!port.brought) continue;
      const InputTensor* tensor = FindRows(input, port.name);
      const int32_t count = plan.count[t];
      if (tensor == nullptr && count == 0) continue;
      if (tensor == nullptr) {
        return WrongInput(
            port.name, fmt::format("{}; {} nodes are of type \"{}\"",
                                   input.Find(port.name) == nullptr ? "missing" : "0 rows", count,
                                   types_[t].name));
      }
      const bool ids = port.ids();
      std::vector<int64_t> dims = {-1};
      if (!ids || port.width > 1) dims.push_back(port.width);
      absl::Status s = CheckTensor(*tensor, ids ? WireType::kInt32 : WireType::kFp32, dims);
      if (!s.ok()) return s;
      if (tensor->dims[0] != count) {
        return WrongInput(port.name, fmt::format("{} rows, {} nodes are of type \"{}\"",
                                                 tensor->dims[0], count, types_[t].name));
      }
      const std::byte* data = tensor->bytes.data();
      if (ids && port.known.size > 0) {
        const auto known = KnownIds(*tensor, "value", port.known, graph);
        if (!known.ok()) return known.status();
        data = *known;
      }
      plan.rows[t][i] = graph.AddInput(port.table, count, data);
    }
  }
  return absl::OkStatus();
}

absl::Status DagUnfolder::AddTensors(const RequestInput& input, Plan& plan,
                                     CellGraph& graph) const {
  const auto asked = AskedOutputs(input, {kOutput, kNodeOutputs});
  if (!asked.ok()) return asked.status();
  const int32_t count = output_type_ < 0 ? plan.nodes : plan.count[Index(output_type_)];
  if (count == 0) {
    return WrongInput(kNodeTypesInput, fmt::format("no node is of type {} (\"{}\"), whose are the "
                                                   "outputs",
                                                   output_type_, types_[Index(output_type_)].name));
  }
  const auto add = [&](std::string_view name) {
    const bool all = name == kNodeOutputs;
    TensorDims dims = {output_width_};
    if (all) dims.insert(dims.begin(), count);
    (all ? plan.node_outputs : plan.output) = graph.AddTensor(name, output_wire_, std::move(dims));
  };
  if (input.outputs.empty()) add(kOutput);
  for (const std::string_view name : input.outputs) add(name);
  return absl::OkStatus();
}

absl::Status DagUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  const std::vector<std::string_view> names(tensor_names_.begin(), tensor_names_.end());
  if (absl::Status s = CheckNames(input, names); !s.ok()) return s;
  Plan plan;
  if (absl::Status s = ReadNodes(input, plan); !s.ok()) return s;
  if (absl::Status s = ReadEdges(input, plan); !s.ok()) return s;
  int64_t links = static_cast<int64_t>(plan.into.size());
  for (size_t t = 0; t < types_.size(); ++t) {
    links += plan.count[t] * std::count_if(types_[t].ports.begin(), types_[t].ports.end(),
                                           [](const Port& port) { return port.brought; });
  }
  graph.Reserve({.inputs = static_cast<int32_t>(tensor_names_.size()),
                 .subgraphs = plan.nodes,
                 .links = static_cast<int32_t>(std::min(links, kMaxTensorRows)),
                 .returns = 2,
                 .tensors = 2});
  if (absl::Status s = AddRows(input, plan, graph); !s.ok()) return s;
  if (absl::Status s = AddTensors(input, plan, graph); !s.ok()) return s;
  Builder(*this, plan, graph).Build();
  return absl::OkStatus();
}

}  // namespace cellbatch
