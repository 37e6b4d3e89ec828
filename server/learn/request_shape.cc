#include "server/learn/request_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "cells/unfold/unfolder.h"

namespace cellbatch {
namespace {

const TensorSpec* FindInput(const Model& model, std::string_view name) {
  for (const TensorSpec& input : model.signature.inputs) {
    if (input.name == name) return &input;
  }
  return nullptr;
}

// Tensors of a request; the graph keeps what they point to, so that it can also be run.
class ZeroRequest {
 public:
  explicit ZeroRequest(CellGraph& graph) : graph_(graph) {}

  // All zeros.
  void AddZeros(const TensorSpec& spec, int64_t rows) {
    TensorDims dims(spec.dims.begin(), spec.dims.end());
    dims[0] = rows;
    int64_t elements = 1;
    for (const int64_t dim : dims) elements *= dim;
    Add(spec.name, spec.type, std::move(dims), std::vector<int32_t>(static_cast<size_t>(elements)));
  }
  void Add(std::string_view name, TensorDims dims, const std::vector<int32_t>& values) {
    Add(name, WireType::kInt32, std::move(dims), values);
  }
  // Numbers as the model has them.
  void AddNumbers(const TensorSpec& spec, const ShapeTensor& tensor) {
    int64_t elements = 1;
    for (const int64_t dim : tensor.dims) elements *= dim;
    std::vector<int32_t> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < tensor.numbers.size(); ++i) {
      values[i] = spec.type == WireType::kFp32
                      ? std::bit_cast<int32_t>(static_cast<float>(tensor.numbers[i]))
                      : tensor.numbers[i];
    }
    Add(spec.name, spec.type, tensor.dims, values);
  }
  RequestInput& input() { return input_; }

 private:
  // Zeros of any 4-byte type have the same bits.
  void Add(std::string_view name, WireType type, TensorDims dims,
           const std::vector<int32_t>& values) {
    const size_t bytes = values.size() * sizeof(int32_t);
    std::byte* const kept = graph_.Keep(static_cast<int64_t>(bytes));
    if (bytes > 0) std::memcpy(kept, values.data(), bytes);
    input_.tensors.push_back({name, type, std::move(dims), {kept, bytes}});
  }

  CellGraph& graph_;
  RequestInput input_;
};

void AddTree(const RequestShape& shape, ZeroRequest& request) {
  std::vector<int32_t> flat;
  for (const auto& [left, right] : shape.children) {
    flat.push_back(left);
    flat.push_back(right);
  }
  const auto inner = static_cast<int64_t>(shape.children.size());
  request.Add("CHILDREN", {inner, 2}, flat);
  if (!shape.inner_types.empty()) request.Add("INTERNAL_TYPES", {inner}, shape.inner_types);
}

// WORDS may not hold the same word twice: the same span twice gets different ids, as far as ids go.
void AddSpans(const RequestShape& shape, ZeroRequest& request) {
  if (shape.spans.empty()) return;
  std::vector<int32_t> flat;
  for (size_t i = 0; i < shape.spans.size(); ++i) {
    const auto same = std::count(
        shape.spans.begin(), shape.spans.begin() + static_cast<std::ptrdiff_t>(i), shape.spans[i]);
    flat.insert(flat.end(), {shape.spans[i][0], shape.spans[i][1], static_cast<int32_t>(same)});
  }
  request.Add("WORDS", {static_cast<int64_t>(shape.spans.size()), 3}, flat);
}

void AddSpelling(const RequestShape& shape, ZeroRequest& request) {
  const int64_t characters =
      std::accumulate(shape.spelled.begin(), shape.spelled.end(), int64_t{0});
  if (characters == 0) return;
  request.Add("CHAR_IDS", {characters}, std::vector<int32_t>(static_cast<size_t>(characters)));
  request.Add("CHAR_LENGTHS", {static_cast<int64_t>(shape.spelled.size())}, shape.spelled);
}

// And zeros for what its nodes read of the request: a row a node of the type.
void AddGraph(const RequestShape& shape, const Model& model, ZeroRequest& request) {
  request.Add("NODE_TYPES", {shape.length}, shape.node_types);
  if (!shape.edges.empty()) {
    std::vector<int32_t> flat;
    for (const auto& edge : shape.edges) flat.insert(flat.end(), edge.begin(), edge.end());
    request.Add("EDGES", {static_cast<int64_t>(shape.edges.size()), 3}, flat);
  }
  const std::vector<NodeTypeDescription> types = model.unfolder->Describe().node_types;
  for (size_t t = 0; t < types.size(); ++t) {
    const auto nodes =
        std::count(shape.node_types.begin(), shape.node_types.end(), static_cast<int32_t>(t));
    for (const NodeTypeDescription::Port& port : types[t].inputs) {
      const TensorSpec* const spec = FindInput(model, port.name);
      if (port.brought && nodes > 0 && spec != nullptr) request.AddZeros(*spec, nodes);
    }
  }
}

absl::Status AddTensors(const RequestShape& shape, const Model& model, ZeroRequest& request) {
  for (const ShapeTensor& tensor : shape.tensors) {
    const TensorSpec* const spec = FindInput(model, tensor.name);
    if (spec == nullptr || spec->type == WireType::kBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{} has no input {} of numbers", model.name, tensor.name));
    }
    request.AddNumbers(*spec, tensor);
  }
  return absl::OkStatus();
}

}  // namespace

const char* Name(ShapeKind kind) {
  switch (kind) {
    case ShapeKind::kSequence:
      return "sequence";
    case ShapeKind::kSpelled:
      return "sequence of spelled words";
    case ShapeKind::kTranslation:
      return "translation";
    case ShapeKind::kTree:
      return "binary tree";
    case ShapeKind::kHeads:
      return "tree of heads";
    case ShapeKind::kLattice:
      return "lattice";
    case ShapeKind::kGraph:
      return "graph";
    case ShapeKind::kTensors:
      return "request of tensors";
  }
  return "";
}

ShapeKind ShapeKindOf(const Model& model) {
  const auto brings = [&](std::string_view name) { return FindInput(model, name) != nullptr; };
  if (model.unfolder->Describe().users_own) return ShapeKind::kTensors;
  if (brings("NODE_TYPES")) return ShapeKind::kGraph;
  if (brings("CHILDREN") || brings("PARENT")) return ShapeKind::kTree;
  if (brings("CHARS")) return ShapeKind::kLattice;
  if (brings("SOURCE")) return ShapeKind::kTranslation;
  if (brings("CHAR_LENGTHS")) return ShapeKind::kSpelled;
  return ShapeKind::kSequence;
}

absl::StatusOr<CellGraph> UnfoldShape(const RequestShape& shape, ShapeKind kind, const Model& model,
                                      const std::vector<std::string_view>& outputs,
                                      int max_tasks_in_flight) {
  CellGraph graph;
  ZeroRequest request(graph);
  const bool own = kind == ShapeKind::kGraph || kind == ShapeKind::kTensors;
  for (const char* const name : {"TOKENS", "X", "SOURCE", "CHARS"}) {
    const TensorSpec* const spec = own ? nullptr : FindInput(model, name);
    if (spec != nullptr) request.AddZeros(*spec, shape.length);
  }
  if (kind == ShapeKind::kGraph) AddGraph(shape, model, request);
  if (kind == ShapeKind::kTensors) {
    if (absl::Status s = AddTensors(shape, model, request); !s.ok()) return s;
  }
  if (kind == ShapeKind::kTree) AddTree(shape, request);
  if (kind == ShapeKind::kHeads) request.Add("PARENT", {shape.length}, shape.parents);
  if (kind == ShapeKind::kLattice) AddSpans(shape, request);
  if (kind == ShapeKind::kSpelled) AddSpelling(shape, request);
  if (kind == ShapeKind::kTranslation) {
    request.input().parameters.push_back({"decode_steps", shape.target});
  }
  request.input().outputs = outputs;
  if (absl::Status s = model.unfolder->Unfold(request.input(), graph); !s.ok()) return s;
  if (absl::Status s = graph.Seal(model, max_tasks_in_flight); !s.ok()) return s;
  return graph;
}

}  // namespace cellbatch
