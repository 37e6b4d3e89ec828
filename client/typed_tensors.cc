#include "client/typed_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch {
namespace {

constexpr int64_t kAny = -1;  // of a dimension
constexpr int64_t kMaxWidth = std::numeric_limits<int32_t>::max();

// By name; remembers the first tensor that could not be read.
class Inputs {
 public:
  explicit Inputs(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      if (by_name_.emplace(tensor.name, &tensor).second) continue;
      Wrong(tensor, "a second time");
    }
  }
  bool Has(const std::string& name) const { return by_name_.count(name) > 0; }
  // Whether there is one of these, and nothing beside them.
  bool Only(std::initializer_list<const char*> names) const {
    const std::set<std::string> known(names.begin(), names.end());
    return !by_name_.empty() &&
           std::all_of(by_name_.begin(), by_name_.end(),
                       [&](const auto& tensor) { return known.count(tensor.first) > 0; });
  }
  const std::map<std::string, const Tensor*>& all() const { return by_name_; }

  // Those of a tensor [n] or, of a width, [n, width]: whole rows, whatever else fills as many bytes. Empty where there
  // is no such tensor.
  std::vector<int32_t> Ints(const std::string& name, std::optional<int64_t> width = {}) {
    if (!Has(name)) return {};
    const Tensor& tensor = *by_name_[name];
    std::vector<int32_t> values = Value(tensor.AsInts());
    const bool fits = width.has_value() ? tensor.shape.size() == 2 && tensor.shape[1] == *width
                                        : tensor.shape.size() == 1;
    if (fits) return values;
    WrongShape(tensor, width.has_value() ? std::vector{kAny, *width} : std::vector{kAny});
    return {};
  }
  // Those of a tensor [n, width], whatever the width, and that.
  std::pair<std::vector<float>, int32_t> FloatRows(const Tensor& tensor) {
    std::vector<float> values = Value(tensor.AsFloats());
    const std::vector<int64_t>& shape = tensor.shape;
    if (shape.size() != 2 || shape[1] < 1) {
      WrongShape(tensor, {kAny, kAny});
    } else if (shape[1] > kMaxWidth) {
      Wrong(tensor,
            fmt::format("shape [{}], rows are up to {} wide", fmt::join(shape, ", "), kMaxWidth));
    } else {
      return {std::move(values), static_cast<int32_t>(shape[1])};
    }
    return {};
  }
  template <typename T>
  T Value(absl::StatusOr<T> value) {
    status_.Update(value.status());
    return value.ok() ? *std::move(value) : T();
  }
  const absl::Status& status() const { return status_; }

 private:
  void Wrong(const Tensor& tensor, const std::string& what) {
    status_.Update(absl::InvalidArgumentError(fmt::format("tensor {}: {}", tensor.name, what)));
  }
  void WrongShape(const Tensor& tensor, const std::vector<int64_t>& wanted) {
    Wrong(tensor, fmt::format("shape [{}] where [{}] was wanted", fmt::join(tensor.shape, ", "),
                              fmt::join(wanted, ", ")));
  }

  std::map<std::string, const Tensor*> by_name_;
  absl::Status status_;
};

// Such a graph goes as tensors, which every server takes: typed rows of integers have not always been more than one wide.
bool HasWideIntegers(const Inputs& inputs) {
  return std::any_of(inputs.all().begin(), inputs.all().end(), [](const auto& entry) {
    const Tensor& tensor = *entry.second;
    return tensor.name != "EDGES" && tensor.name != "NODE_TYPES" && tensor.datatype == "INT32" &&
           tensor.shape.size() == 2;
  });
}

GraphInput GraphFrom(Inputs& inputs) {
  GraphInput graph{.node_types = inputs.Ints("NODE_TYPES")};
  const std::vector<int32_t> edges = inputs.Ints("EDGES", 3);
  for (size_t e = 0; e < edges.size(); e += 3) {
    graph.edges.push_back({edges[e], edges[e + 1], edges[e + 2]});
  }
  for (const auto& [name, tensor] : inputs.all()) {
    if (name == "NODE_TYPES" || name == "EDGES") {
      continue;
    }
    GraphInput::Rows& rows = graph.rows.emplace_back(GraphInput::Rows{.name = name});
    if (tensor->datatype == "INT32") {
      rows.integers = inputs.Ints(name);
    } else if (tensor->shape.size() == 1) {  // of width 1
      rows.floats = inputs.Value(tensor->AsFloats());
    } else {
      std::tie(rows.floats, rows.width) = inputs.FloatRows(*tensor);
    }
  }
  return graph;
}

LatticeInput LatticeFrom(Inputs& inputs) {
  LatticeInput lattice{.characters = inputs.Ints("CHARS")};
  const std::vector<int32_t> words = inputs.Ints("WORDS", 3);
  for (size_t w = 0; w < words.size(); w += 3) {
    lattice.words.push_back({words[w], words[w + 1], words[w + 2]});
  }
  return lattice;
}

TreeInput TreeFrom(Inputs& inputs) {
  TreeInput tree{.tokens = inputs.Ints("TOKENS"), .parents = inputs.Ints("PARENT")};
  const std::vector<int32_t> children = inputs.Ints("CHILDREN", 2);
  for (size_t c = 0; c < children.size(); c += 2) {
    tree.left.push_back(children[c]);
    tree.right.push_back(children[c + 1]);
  }
  tree.internal_types = inputs.Ints("INTERNAL_TYPES");
  return tree;
}

SequenceInput SequenceFrom(Inputs& inputs) {
  SequenceInput sequence;
  sequence.tokens = inputs.Ints(inputs.Has("SOURCE") ? "SOURCE" : "TOKENS");
  sequence.character_ids = inputs.Ints("CHAR_IDS");
  sequence.character_counts = inputs.Ints("CHAR_LENGTHS");
  if (inputs.Has("X")) {
    std::tie(sequence.vectors, sequence.width) = inputs.FloatRows(*inputs.all().at("X"));
  }
  return sequence;
}

}  // namespace

absl::StatusOr<TypedInput> TypedFromTensors(const std::vector<Tensor>& tensors) {
  Inputs inputs(tensors);
  TypedInput typed = tensors;
  if (inputs.Has("NODE_TYPES") && !HasWideIntegers(inputs)) {
    typed = GraphFrom(inputs);
  } else if (inputs.Has("CHARS") && inputs.Only({"CHARS", "WORDS"})) {
    typed = LatticeFrom(inputs);
  } else if ((inputs.Has("CHILDREN") || inputs.Has("PARENT")) &&
             inputs.Only({"TOKENS", "CHILDREN", "PARENT", "INTERNAL_TYPES"})) {
    typed = TreeFrom(inputs);
  } else if (inputs.Only({"X"}) || inputs.Only({"SOURCE"}) ||
             inputs.Only({"TOKENS", "CHAR_IDS", "CHAR_LENGTHS"})) {
    typed = SequenceFrom(inputs);
  }
  if (!inputs.status().ok()) {
    return inputs.status();
  }
  return typed;
}

}  // namespace cellbatch
