#include "client/typed_tensors.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace cellbatch {
namespace {

// By name; remembers the first tensor that could not be read.
class Inputs {
 public:
  explicit Inputs(const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      by_name_[tensor.name] = &tensor;
    }
  }
  bool Has(const std::string& name) const { return by_name_.count(name) > 0; }
  // Whether there is nothing beside these.
  bool Only(std::initializer_list<const char*> names) const {
    const std::set<std::string> known(names.begin(), names.end());
    return std::all_of(by_name_.begin(), by_name_.end(),
                       [&](const auto& tensor) { return known.count(tensor.first) > 0; });
  }
  const std::map<std::string, const Tensor*>& all() const { return by_name_; }

  // Empty where there is no such tensor.
  std::vector<int32_t> Ints(const std::string& name) {
    return Has(name) ? Value(by_name_[name]->AsInts()) : std::vector<int32_t>();
  }
  template <typename T>
  T Value(absl::StatusOr<T> value) {
    status_.Update(value.status());
    return value.ok() ? *std::move(value) : T();
  }
  const absl::Status& status() const { return status_; }

 private:
  std::map<std::string, const Tensor*> by_name_;
  absl::Status status_;
};

GraphInput GraphFrom(Inputs& inputs) {
  GraphInput graph{.node_types = inputs.Ints("NODE_TYPES")};
  const std::vector<int32_t> edges = inputs.Ints("EDGES");
  for (size_t e = 0; e + 3 <= edges.size(); e += 3) {
    graph.edges.push_back({edges[e], edges[e + 1], edges[e + 2]});
  }
  for (const auto& [name, tensor] : inputs.all()) {
    if (name == "NODE_TYPES" || name == "EDGES") {
      continue;
    }
    GraphInput::Rows& rows = graph.rows.emplace_back(GraphInput::Rows{.name = name});
    if (tensor->datatype == "INT32") {
      rows.integers = inputs.Ints(name);
    } else {
      rows.width = tensor->shape.size() == 2 ? static_cast<int32_t>(tensor->shape[1]) : 1;
      rows.floats = inputs.Value(tensor->AsFloats());
    }
  }
  return graph;
}

LatticeInput LatticeFrom(Inputs& inputs) {
  LatticeInput lattice{.characters = inputs.Ints("CHARS")};
  const std::vector<int32_t> words = inputs.Ints("WORDS");
  for (size_t w = 0; w + 3 <= words.size(); w += 3) {
    lattice.words.push_back({words[w], words[w + 1], words[w + 2]});
  }
  return lattice;
}

TreeInput TreeFrom(Inputs& inputs) {
  TreeInput tree{.tokens = inputs.Ints("TOKENS"), .parents = inputs.Ints("PARENT")};
  const std::vector<int32_t> children = inputs.Ints("CHILDREN");
  for (size_t c = 0; c < children.size(); ++c) {
    (c % 2 == 0 ? tree.left : tree.right).push_back(children[c]);
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
    const Tensor& x = *inputs.all().at("X");
    sequence.vectors = inputs.Value(x.AsFloats());
    sequence.width = x.shape.empty() ? 0 : static_cast<int32_t>(x.shape.back());
  }
  return sequence;
}

}  // namespace

absl::StatusOr<TypedInput> TypedFromTensors(const std::vector<Tensor>& tensors) {
  Inputs inputs(tensors);
  TypedInput typed = tensors;
  if (inputs.Has("NODE_TYPES")) {
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
