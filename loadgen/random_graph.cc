#include "loadgen/random_graph.h"

#include <algorithm>
#include <string>

#include "loadgen/arrivals.h"

namespace cellbatch {
namespace {

class Drawing {
 public:
  Drawing(const ModelNeeds& needs, std::mt19937_64& random)
      : types_(needs.node_types),
        random_(random),
        nodes_of_(types_.size()),
        unread_(types_.size()) {}

  // A node of any type that can read what it wants.
  void AddAny() {
    const bool source = random_() % 2 == 0;
    std::vector<int32_t> can, other;
    for (size_t t = 0; t < types_.size(); ++t) {
      if (CanAdd(types_[t])) {
        (ReadsNodes(types_[t]) == source ? other : can).push_back(static_cast<int32_t>(t));
      }
    }
    const std::vector<int32_t>& from = can.empty() ? other : can;
    if (!from.empty()) {
      Add(from[random_() % from.size()]);
    }
  }

  // One of this type; before it, a node for each of its inputs that would find none.
  void AddOutput(int32_t type) {
    for (const GraphNodeType::Port& port : types_[type].inputs) {
      if (!port.brought && !HasNode(port)) {
        const auto source = std::find_if(port.reads.begin(), port.reads.end(), [&](int32_t from) {
          return from != type && CanAdd(types_[from]);
        });
        if (source != port.reads.end()) {
          Add(*source);
        }
      }
    }
    Add(type);
  }

  std::vector<Tensor> Tensors() {
    std::vector<Tensor> tensors = {
        Int32Tensor("NODE_TYPES", {static_cast<int64_t>(node_types_.size())}, node_types_)};
    if (!edges_.empty()) {
      tensors.push_back(Int32Tensor("EDGES", {static_cast<int64_t>(edges_.size() / 3), 3}, edges_));
    }
    for (size_t t = 0; t < types_.size(); ++t) {
      for (const GraphNodeType::Port& port : types_[t].inputs) {
        if (port.brought && !nodes_of_[t].empty()) {
          tensors.push_back(Rows(port, static_cast<int64_t>(nodes_of_[t].size())));
        }
      }
    }
    return tensors;
  }

 private:
  bool ReadsNodes(const GraphNodeType& type) const {
    return std::any_of(type.inputs.begin(), type.inputs.end(),
                       [](const auto& port) { return !port.brought; });
  }
  bool HasNode(const GraphNodeType::Port& port) const {
    return std::any_of(port.reads.begin(), port.reads.end(),
                       [&](int32_t type) { return !nodes_of_[type].empty(); });
  }
  // A type that reads only what its own kind leaves (a chain's carry) may begin: the input reads zeros.
  bool CanAdd(const GraphNodeType& type) const {
    return std::all_of(type.inputs.begin(), type.inputs.end(), [&](const auto& port) {
      return port.brought || HasNode(port) ||
             std::all_of(port.reads.begin(), port.reads.end(),
                         [&](int32_t from) { return &types_[from] == &type; });
    });
  }

  void Add(int32_t type) {
    const auto node = static_cast<int32_t>(node_types_.size());
    for (size_t i = 0; i < types_[type].inputs.size(); ++i) {
      const GraphNodeType::Port& port = types_[type].inputs[i];
      if (port.brought || !HasNode(port)) {
        continue;
      }
      for (uint64_t left = port.sums ? 1 + random_() % 3 : 1; left > 0; --left) {
        edges_.insert(edges_.end(), {TakeNode(port), node, static_cast<int32_t>(i)});
      }
    }
    node_types_.push_back(type);
    nodes_of_[type].push_back(node);
    unread_[type].push_back(node);
  }

  // The latest that nobody has read; else any.
  int32_t TakeNode(const GraphNodeType::Port& port) {
    int32_t latest = -1;
    for (const int32_t type : port.reads) {
      if (!unread_[type].empty() && (latest < 0 || unread_[type].back() > unread_[latest].back())) {
        latest = type;
      }
    }
    if (latest >= 0) {
      const int32_t node = unread_[latest].back();
      unread_[latest].pop_back();
      return node;
    }
    std::vector<int32_t> types;
    for (const int32_t type : port.reads) {
      if (!nodes_of_[type].empty()) {
        types.push_back(type);
      }
    }
    const std::vector<int32_t>& nodes = nodes_of_[types[random_() % types.size()]];
    return nodes[random_() % nodes.size()];
  }

  Tensor Rows(const GraphNodeType::Port& port, int64_t count) {
    std::vector<int64_t> shape = {count};
    if (port.floats || port.width > 1) {
      shape.push_back(port.width);
    }
    const auto values = static_cast<size_t>(count * port.width);
    if (port.floats) {
      std::vector<float> rows(values);
      std::generate(rows.begin(), rows.end(),
                    [&] { return static_cast<float>(2 * UniformFrom(random_) - 1); });
      return FloatTensor(port.name, shape, rows);
    }
    std::vector<int32_t> ids(values);
    std::generate(ids.begin(), ids.end(), [&] {
      return static_cast<int32_t>(random_() %
                                  static_cast<uint64_t>(std::max<int64_t>(1, port.ids)));
    });
    return Int32Tensor(port.name, shape, ids);
  }

  const std::vector<GraphNodeType>& types_;
  std::mt19937_64& random_;
  std::vector<int32_t> node_types_, edges_;
  std::vector<std::vector<int32_t>> nodes_of_, unread_;  // by type
};

}  // namespace

std::vector<Tensor> RandomGraph(const ModelNeeds& needs, int32_t nodes, std::mt19937_64& random) {
  Drawing drawing(needs, random);
  for (int32_t i = 1; i < nodes; ++i) {
    drawing.AddAny();
  }
  drawing.AddOutput(needs.output_type >= 0 ? needs.output_type
                                           : static_cast<int32_t>(needs.node_types.size()) - 1);
  return drawing.Tensors();
}

}  // namespace cellbatch
