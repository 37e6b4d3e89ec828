// From a request to a graph. What a model's cells look like was settled by Create (tree_unfolder_create.cc).
#include "cells/unfold/tree_unfolder.h"

#include <fmt/format.h>

#include <utility>

#include "cells/unfold/chain_unfolder.h"

namespace cellbatch {
namespace {

constexpr int64_t kFloat = sizeof(float);

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

// -1: not asked for.
struct TreeUnfolder::Asked {
  int32_t output = -1, node_outputs = -1, all_hidden = -1, final_h = -1, final_c = -1;
};

// Adds trees to a graph, one after the other.
class TreeUnfolder::Builder {
 public:
  Builder(const TreeUnfolder& unfolder, const Forest& forest, const Asked& asked, CellGraph& graph)
      : u_(unfolder), forest_(forest), asked_(asked), graph_(graph) {}

  void Run() {
    AddRows();
    for (const TreeSize& tree : forest_.trees) {
      AddTree(tree);
      first_node_ += tree.nodes();
      first_row_ += forest_.node_tokens ? tree.nodes() : tree.leaves;
      first_internal_ += tree.internals;
      ++tree_;
    }
  }

 private:
  // Where a node lies.
  struct Place {
    SubgraphId from;
    int32_t node = 0;
  };

  void AddRows() {
    const int32_t rows = forest_.all.leaves + (forest_.node_tokens ? forest_.all.internals : 0);
    rows_ = graph_.AddInput(u_.tokens_, rows, forest_.tokens);
    if (!u_.embedding_.valid()) return;
    const Link link = {rows_, u_.embedding_input_, 0, 1};
    rows_ = graph_.Add(u_.embedding_, rows, {&link, 1});
  }

  void AddTree(const TreeSize& tree) {
    places_.resize(Index(tree.nodes()));
    AddLeaves(tree.leaves);
    for (int32_t i = 0; i < tree.internals; ++i) {
      const int64_t k = first_internal_ + i;
      const size_t type = forest_.types.empty() ? 0 : Index(forest_.types[Index(k)]);
      AddInternal(u_.internal_[type], tree.leaves + i, forest_.ChildrenOf(k));
    }
    ReturnAll(tree);
    const Place root = places_.back();
    if (asked_.output >= 0) {
      const Leaves& leaves = u_.output_.valid() ? u_.y_ : u_.h_;
      const Place from = !u_.output_.valid()        ? root
                         : asked_.node_outputs >= 0 ? root_output_
                                                    : Place{AddOutputs(root, 1), 0};
      Return(from, 1, leaves, asked_.output, tree_);
    }
    if (asked_.final_h >= 0) Return(root, 1, u_.h_, asked_.final_h, tree_);
    if (asked_.final_c >= 0) Return(root, 1, u_.c_, asked_.final_c, tree_);
  }

  void AddLeaves(int32_t leaves) {
    const int32_t step = u_.leaf_.sets ? leaves : 1;
    for (int32_t i = 0; i < leaves; i += step) {
      const Link token = {rows_, u_.leaf_.slots[0].input, first_row_ + i, step > 1 ? 1 : 0};
      const SubgraphId made = graph_.Add(u_.leaf_.type, step, {&token, 1});
      for (int32_t j = 0; j < step; ++j) places_[Index(i + j)] = {made, j};
    }
  }

  void AddInternal(const Cell& cell, int32_t node, absl::Span<const int32_t> children) {
    if (u_.edge_.type.valid() && cell.Has(Slot::Reads::kEdges)) AddEdges(node, children);
    links_.clear();
    for (const Slot& slot : cell.slots) {
      switch (slot.reads) {
        case Slot::Reads::kToken:
          LinkToken(slot.input, node);
          break;
        case Slot::Reads::kChild:
          if (Index(slot.child) < children.size()) {
            LinkPlace(slot.input, places_[Index(children[Index(slot.child)])]);
          }
          break;
        case Slot::Reads::kChildren:
          for (const int32_t child : children) LinkPlace(slot.input, places_[Index(child)]);
          break;
        case Slot::Reads::kEdges:
          for (const Place& edge : edges_) LinkPlace(slot.input, edge);
          break;
      }
    }
    places_[Index(node)] = {graph_.Add(cell.type, 1, links_), 0};
  }

  // One node for each child, in their order; where children lie side by side in one subgraph, one set of them.
  void AddEdges(int32_t node, absl::Span<const int32_t> children) {
    edges_.clear();
    for (size_t i = 0; i < children.size();) {
      const Place first = places_[Index(children[i])];
      int32_t run = 1;
      while (u_.edge_.sets && i + Index(run) < children.size()) {
        const Place next = places_[Index(children[i + Index(run)])];
        if (next.from != first.from || next.node != first.node + run) break;
        ++run;
      }
      links_.clear();
      for (const Slot& slot : u_.edge_.slots) {
        if (slot.reads == Slot::Reads::kToken) {
          LinkToken(slot.input, node);
        } else {
          links_.push_back({first.from, slot.input, first.node, run > 1 ? 1 : 0});
        }
      }
      const SubgraphId made = graph_.Add(u_.edge_.type, run, links_);
      for (int32_t j = 0; j < run; ++j) edges_.push_back({made, j});
      i += Index(run);
    }
  }

  void LinkPlace(InputId input, Place place) {
    links_.push_back({place.from, input, place.node, 0});
  }

  // Nodes without a token read zeros.
  void LinkToken(InputId input, int32_t node) {
    if (forest_.node_tokens) links_.push_back({rows_, input, first_row_ + node, 0});
  }

  // Output cells over `nodes` nodes of one subgraph.
  SubgraphId AddOutputs(Place first, int32_t nodes) {
    const Link link = {first.from, u_.output_input_, first.node, nodes > 1 ? 1 : 0};
    graph_.SetPhase(1);
    const SubgraphId made = graph_.Add(u_.output_, nodes, {&link, 1});
    graph_.SetPhase(0);
    return made;
  }

  // A row for every node, of what is asked for so.
  void ReturnAll(const TreeSize& tree) {
    if (asked_.node_outputs < 0 && asked_.all_hidden < 0) return;
    const int32_t step = u_.leaf_.sets ? tree.leaves : 1;
    for (int32_t node = 0; node < tree.nodes();) {
      const int32_t nodes = node < tree.leaves ? step : 1;
      const Place place = places_[Index(node)];
      if (asked_.all_hidden >= 0) ReturnRows(place, node, nodes, u_.h_, asked_.all_hidden);
      if (asked_.node_outputs >= 0) {
        root_output_ = {AddOutputs(place, nodes), 0};
        ReturnRows(root_output_, node, nodes, u_.y_, asked_.node_outputs);
      }
      node += nodes;
    }
  }

  // Of `nodes` nodes from `node` on: a piece for each run of consecutive numbers.
  void ReturnRows(Place from, int32_t node, int32_t nodes, const Leaves& leaves, int32_t tensor) {
    if (forest_.numbers.empty()) {
      Return(from, nodes, leaves, tensor, first_node_ + node);
      return;
    }
    const auto numbers = forest_.numbers.subspan(Index(first_node_ + node), Index(nodes));
    for (size_t i = 0; i < numbers.size();) {
      size_t run = 1;
      while (i + run < numbers.size() &&
             numbers[i + run] == numbers[i] + static_cast<int32_t>(run)) {
        ++run;
      }
      Return({from.from, from.node + static_cast<int32_t>(i)}, static_cast<int32_t>(run), leaves,
             tensor, first_node_ + numbers[i]);
      i += run;
    }
  }

  void Return(Place from, int32_t nodes, const Leaves& leaves, int32_t tensor, int64_t row) {
    const int64_t bytes = leaves.width * kFloat;
    graph_.Return(from.from, leaves.column, {from.node, nodes}, {tensor, row * bytes, bytes});
  }

  const TreeUnfolder& u_;
  const Forest& forest_;
  const Asked& asked_;
  CellGraph& graph_;
  SubgraphId rows_;
  int32_t first_node_ = 0, first_row_ = 0;
  int64_t first_internal_ = 0, tree_ = 0;
  std::vector<Place> places_;  // of this tree's nodes
  std::vector<Place> edges_;   // of one node's children
  std::vector<Link> links_;
  Place root_output_;
};

absl::Status TreeUnfolder::CheckArity(const Forest& forest) const {
  int64_t first = 0, first_node = 0;
  for (size_t t = 0; t < forest.trees.size(); ++t) {
    const TreeSize tree = forest.trees[t];
    for (int64_t k = first; k < first + tree.internals; ++k) {
      const Cell& cell = internal_[forest.types.empty() ? 0 : Index(forest.types[Index(k)])];
      const size_t children = forest.ChildrenOf(k).size();
      if (children <= Index(cell.max_children)) continue;
      int64_t node = tree.leaves + k - first;
      if (!forest.numbers.empty()) node = forest.numbers[Index(first_node + node)];
      return WrongInput(forest.form,
                        fmt::format("{}node {} has {} children, cell type \"{}\" takes {}",
                                    forest.several ? fmt::format("tree {}: ", t) : "", node,
                                    children, cell.name, cell.max_children));
    }
    first += tree.internals;
    first_node += tree.nodes();
  }
  return absl::OkStatus();
}

// At most: sets of leaves make it less.
GraphBounds TreeUnfolder::Bounds(const Forest& forest, const Asked& asked) const {
  const int32_t trees = static_cast<int32_t>(forest.trees.size()), nodes = forest.all.nodes();
  const int32_t leaves = leaf_.sets ? trees : forest.all.leaves;
  const int32_t edges = edge_.type.valid() ? nodes - trees : 0;
  const int32_t each = forest.all.internals + leaves;  // subgraphs of nodes
  const int32_t outputs = asked.node_outputs >= 0 ? each : output_.valid() ? trees : 0;
  const int32_t rows = (asked.node_outputs >= 0) + (asked.all_hidden >= 0);
  return {.inputs = 1,
          .subgraphs = 1 + each + edges + outputs,
          .links = 1 + leaves + 2 * forest.all.internals + nodes + 2 * edges + outputs,
          .returns = rows * (forest.numbers.empty() ? each : nodes) + 3 * trees,
          .tensors = 5};
}

// Nodes of the edge cell: one for each child of those who read what it leaves.
int64_t TreeUnfolder::EdgesOf(const Forest& forest) const {
  if (!edge_.type.valid()) return 0;
  int64_t edges = 0;
  for (int64_t k = 0; k < forest.all.internals; ++k) {
    const Cell& cell = internal_[forest.types.empty() ? 0 : Index(forest.types[Index(k)])];
    if (cell.Has(Slot::Reads::kEdges)) {
      edges += static_cast<int64_t>(forest.ChildrenOf(k).size());
    }
  }
  return edges;
}

absl::Status TreeUnfolder::CheckSize(const Forest& forest, const Asked& asked) const {
  const int64_t trees = static_cast<int64_t>(forest.trees.size()), nodes = forest.all.nodes();
  int64_t cells = nodes;
  if (embedding_.valid()) cells += forest.node_tokens ? nodes : forest.all.leaves;
  cells += EdgesOf(forest);
  if (output_.valid()) cells += asked.node_outputs >= 0 ? nodes : asked.output >= 0 ? trees : 0;
  if (cells <= rules_.max_nodes) return absl::OkStatus();
  return WrongInput(forest.form, fmt::format("{} nodes take {} cells, the model takes {}", nodes,
                                             cells, rules_.max_nodes));
}

absl::StatusOr<TreeUnfolder::Asked> TreeUnfolder::AddTensors(const RequestInput& input,
                                                             const Forest& forest,
                                                             CellGraph& graph) const {
  const auto known = AskedOutputs(input, outputs_);
  if (!known.ok()) return known.status();
  const auto names = input.outputs.empty() ? absl::MakeConstSpan(outputs_).first(1)
                                           : absl::MakeConstSpan(input.outputs);
  Asked asked;
  for (const std::string_view name : names) {
    const bool rows = name == kNodeOutputs || name == kAllHidden;
    const bool y = name == kNodeOutputs || (name == kOutput && output_.valid());
    TensorDims dims = {y ? y_.width : name == kFinalC ? c_.width : h_.width};
    if (rows) dims.insert(dims.begin(), forest.all.nodes());
    if (!rows && forest.several) {
      dims.insert(dims.begin(), static_cast<int64_t>(forest.trees.size()));
    }
    int32_t& number = name == kOutput        ? asked.output
                      : name == kNodeOutputs ? asked.node_outputs
                      : name == kAllHidden   ? asked.all_hidden
                      : name == kFinalH      ? asked.final_h
                                             : asked.final_c;
    number = graph.AddTensor(name, WireType::kFp32, std::move(dims));
  }
  return asked;
}

absl::Status TreeUnfolder::Unfold(const RequestInput& input, CellGraph& graph) const {
  const absl::StatusOr<Forest> forest = ReadForest(input, rules_, graph);
  if (!forest.ok()) return forest.status();
  if (absl::Status s = CheckArity(*forest); !s.ok()) return s;
  const absl::StatusOr<Asked> asked = AddTensors(input, *forest, graph);
  if (!asked.ok()) return asked.status();
  if (absl::Status s = CheckSize(*forest, *asked); !s.ok()) return s;
  graph.Reserve(Bounds(*forest, *asked));
  Builder(*this, *forest, *asked, graph).Run();
  return absl::OkStatus();
}

}  // namespace cellbatch
