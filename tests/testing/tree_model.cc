#include "tests/testing/tree_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "cells/check.h"
#include "tests/testing/builders.h"

namespace cellbatch::testing {
namespace {

using Vector = std::vector<double>;

size_t Index(int64_t i) { return static_cast<size_t>(i); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void AddTo(Vector& sum, const Vector& x) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
}

// i, o, u of three stacked gates -> i u.
Vector Added(const Vector& gates, size_t h) {
  Vector c(h);
  for (size_t i = 0; i < h; ++i) c[i] = Sigmoid(gates[i]) * std::tanh(gates[2 * h + i]);
  return c;
}

Vector Shown(const Vector& gates, const Vector& c) {
  Vector h(c.size());
  for (size_t i = 0; i < c.size(); ++i) h[i] = Sigmoid(gates[c.size() + i]) * std::tanh(c[i]);
  return h;
}

// c = i u + the others; h = o tanh(c); from stacked gates i, o, u.
void LeaveTree(CellBuilder& b, ValueId gates, int32_t h, const std::vector<ValueId>& others) {
  const ValueId i = b.Sigmoid(b.Slice(gates, 0, h)), o = b.Sigmoid(b.Slice(gates, h, 2 * h));
  ValueId c = b.Mul(i, b.Tanh(b.Slice(gates, 2 * h, 3 * h)));
  for (const ValueId other : others) c = b.Add(c, other);
  b.Leave("h", b.Mul(o, b.Tanh(c)));
  b.Leave("c", c);
}

ValueId ReadWord(CellBuilder& b, const char* input, const TreeModelSpec& s) {
  const ValueId token = b.Read(input, "token", 1, ElementType::kInt32);
  return b.Lookup(b.Matrix("E", s.vocabulary, s.width), token);
}

CellDefinition LeafCell(const TreeModelSpec& s) {
  CellBuilder b("leaf");
  const ValueId x = ReadWord(b, "x", s);
  const int32_t h = s.hidden;
  LeaveTree(b, b.Add(b.MatMul(x, b.Matrix("W", 3 * h, s.width)), b.Vector("b", 3 * h)), h, {});
  return b.Build();
}

CellDefinition BinaryCell(const TreeModelSpec& s) {
  CellBuilder b("internal");
  const int32_t n = s.hidden;
  std::vector<ValueId> h, c, kept;
  for (const char* child : {"child0", "child1"}) {
    h.push_back(b.Read(child, "h", n));
    c.push_back(b.Read(child, "c", n));
  }
  const ValueId b_f = b.Vector("b_f", n);
  for (size_t k = 0; k < 2; ++k) {
    const ValueId u = b.Matrix(k == 0 ? "U_f0" : "U_f1", n, n);
    kept.push_back(b.Mul(b.Sigmoid(b.Add(b_f, b.MatMul(h[k], u))), c[k]));
  }
  const ValueId all = b.MatMul(b.Concat(h[0], h[1]), b.Matrix("U", 3 * n, 2 * n));
  LeaveTree(b, b.Add(b.Vector("b", 3 * n), all), n, kept);
  return b.Build();
}

CellDefinition NaryCell(const TreeModelSpec& s) {
  CellBuilder b("node");
  const int32_t n = s.hidden;
  ValueId gates = b.Add(b.Vector("b", 6 * n),
                        b.MatMul(b.Read("x", "x", s.width), b.Matrix("W", 6 * n, s.width)));
  std::vector<ValueId> c, kept;
  for (int k = 0; k < 3; ++k) {
    const ValueId h = b.Read(fmt::format("child{}", k), "h", n);
    c.push_back(b.Read(fmt::format("child{}", k), "c", n));
    gates = b.Add(gates, b.MatMul(h, b.Matrix(fmt::format("U{}", k), 6 * n, n)));
  }
  for (int k = 0; k < 3; ++k) {
    const ValueId f = b.Sigmoid(b.Slice(gates, (3 + k) * n, (4 + k) * n));
    kept.push_back(b.Mul(f, c[Index(k)]));
  }
  LeaveTree(b, gates, n, kept);
  return b.Build();
}

CellDefinition NodeCell(const TreeModelSpec& s) {
  CellBuilder b("node");
  const int32_t n = s.hidden;
  const ValueId from_x = b.MatMul(ReadWord(b, "x", s), b.Matrix("W", 3 * n, s.width));
  const ValueId h = b.Read("children", "h", n, ElementType::kFp32, Arity::kSum);
  const ValueId fc = b.Read("edges", "fc", n, ElementType::kFp32, Arity::kSum);
  const ValueId from_h = b.MatMul(h, b.Matrix("U", 3 * n, n));
  LeaveTree(b, b.Add(b.Add(b.Vector("b", 3 * n), from_x), from_h), n, {fc});
  return b.Build();
}

CellDefinition EdgeCell(const TreeModelSpec& s) {
  CellBuilder b("edge");
  const int32_t n = s.hidden;
  const ValueId from_x = b.MatMul(ReadWord(b, "x", s), b.Matrix("W_f", n, s.width));
  const ValueId h = b.Read("child", "h", n), c = b.Read("child", "c", n);
  const ValueId f = b.Add(b.Add(b.Vector("b_f", n), from_x), b.MatMul(h, b.Matrix("U_f", n, n)));
  b.Leave("fc", b.Mul(b.Sigmoid(f), c));
  return b.Build();
}

CellDefinition OutputCell(const TreeModelSpec& s) {
  CellBuilder b("output");
  const ValueId h = b.Read("x", "h", s.hidden);
  b.Leave("y", b.Add(b.Vector("b", s.classes), b.MatMul(h, b.Matrix("W", s.classes, s.hidden))));
  return b.Build();
}

InputTensor Tensor(std::string_view name, const std::vector<int32_t>& values, bool pairs = false) {
  const int64_t size = static_cast<int64_t>(values.size());
  return {name, WireType::kInt32, pairs ? TensorDims{size / 2, 2} : TensorDims{size},
          absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()),
                              values.size() * sizeof(int32_t))};
}

}  // namespace

RequestInput TreeRequest::Input(std::vector<std::string_view> outputs) const {
  RequestInput input;
  if (text.empty()) {
    input.tensors.push_back(Tensor("TOKENS", tokens));
    if (!parents.empty()) {
      input.tensors.push_back(Tensor(kParentInput, parents));
    } else if (!children.empty()) {
      input.tensors.push_back(Tensor(kChildrenInput, children, true));
    }
  } else {
    input.tensors.push_back(
        {kTreeInput,
         WireType::kBytes,
         {1},
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(text.data()), text.size())});
  }
  if (!types.empty()) input.tensors.push_back(Tensor(kInternalTypesInput, types));
  if (!lengths.empty()) input.tensors.push_back(Tensor("LENGTHS", lengths));
  input.outputs = std::move(outputs);
  return input;
}

void TreeRequest::MakeText() {
  const std::vector<int32_t> one = {static_cast<int32_t>(tokens.size())};
  std::string made;
  size_t token = 0, row = 0;
  for (const int32_t leaves : lengths.empty() ? one : lengths) {
    std::vector<std::string> nodes;
    for (int32_t i = 0; i < leaves; ++i)
      nodes.push_back(fmt::format("({} w{})", i % 5, tokens[token++]));
    for (int32_t k = 0; k + 1 < leaves; ++k, ++row) {
      nodes.push_back(fmt::format("({} {})", nodes[Index(children[2 * row])],
                                  nodes[Index(children[2 * row + 1])]));
    }
    made += nodes.back() + "\n";
  }
  const auto length = static_cast<uint32_t>(made.size());
  text.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  text += made;
}

TreeModel::TreeModel(const TreeModelSpec& sizes) : sizes_(sizes) {
  switch (sizes.kind) {
    case TreeKind::kBinary:
    case TreeKind::kTwoTypes:
      AddBinary();
      break;
    case TreeKind::kNary:
      AddNary();
      break;
    case TreeKind::kChildSum:
    case TreeKind::kChildSumLeaf:
      AddChildSum(sizes.kind == TreeKind::kChildSumLeaf);
      break;
  }
  std::string words;
  for (int32_t i = 0; i < sizes.vocabulary; ++i) words += fmt::format("w{}\n", i);
  auto vocabulary = Vocabulary::Create(words);
  Check(vocabulary.ok(), "the test's vocabulary");
  spec_.vocabulary = *vocabulary;
  spec_.tokens = FindTable(*model_, "token");
  spec_.known_words.size = sizes.vocabulary;
  spec_.max_nodes = sizes.max_nodes;
  auto unfolder = TreeUnfolder::Create(spec_, *model_);
  Check(unfolder.ok(), unfolder.status().ToString());
  model_->signature = (*unfolder)->MakeSignature();
  model_->unfolder = *std::move(unfolder);
}

void TreeModel::AddBinary() {
  ModelBuilder builder("binary");
  spec_.leaf = builder.Add(LeafCell(sizes_), 1);
  const int types = sizes_.kind == TreeKind::kTwoTypes ? 2 : 1;
  for (int t = 0; t < types; ++t) {
    spec_.internal.push_back(builder.Add(BinaryCell(sizes_), 2 + static_cast<uint64_t>(t)));
  }
  if (sizes_.output) {
    spec_.output = builder.Add(OutputCell(sizes_), 9);
    builder.Connect(spec_.output, "x", spec_.leaf);
  }
  model_ = builder.Build();
}

void TreeModel::AddNary() {
  ModelBuilder builder("nary");
  spec_.embedding = builder.Add(EmbeddingCell(sizes_.vocabulary, sizes_.width), 1);
  spec_.internal.push_back(builder.Add(NaryCell(sizes_), 2));
  for (const char* child : {"child0", "child1", "child2"}) {
    builder.Connect(spec_.internal[0], child, spec_.internal[0]);
  }
  if (sizes_.output) {
    spec_.output = builder.Add(OutputCell(sizes_), 9);
    builder.Connect(spec_.output, "x", spec_.internal[0]);
  }
  model_ = builder.Build();
}

void TreeModel::AddChildSum(bool leaf) {
  ModelBuilder builder("childsum");
  if (leaf) spec_.leaf = builder.Add(LeafCell(sizes_), 1);
  spec_.internal.push_back(builder.Add(NodeCell(sizes_), 2));
  spec_.edge = builder.Add(EdgeCell(sizes_), 3);
  builder.Connect(spec_.internal[0], "edges", spec_.edge);
  builder.Connect(spec_.edge, "child", spec_.internal[0]);
  if (sizes_.output) {
    spec_.output = builder.Add(OutputCell(sizes_), 9);
    builder.Connect(spec_.output, "x", spec_.internal[0]);
  }
  model_ = builder.Build();
}

TreeRequest TreeModel::Random(std::mt19937_64& random, int size) const {
  const auto below = [&](size_t n) { return static_cast<int32_t>(random() % n); };
  TreeRequest r;
  const auto word = [&] { r.tokens.push_back(below(Index(sizes_.vocabulary))); };
  if (!node_tokens()) {
    const int32_t leaves = size / 2 + 1;
    std::vector<int32_t> roots;
    for (int32_t i = 0; i < leaves; ++i, word()) roots.push_back(i);
    for (int32_t k = 0; k + 1 < leaves; ++k) {
      for (int child = 0; child < 2; ++child) {
        const size_t at = Index(below(roots.size()));
        r.children.push_back(std::exchange(roots[at], roots.back()));
        roots.pop_back();
      }
      roots.push_back(leaves + k);
      if (spec_.internal.size() > 1) r.types.push_back(below(spec_.internal.size()));
    }
    return r;
  }
  std::vector<int32_t> numbers(Index(size)), degree(Index(size), 0);
  for (int32_t i = 0; i < size; ++i, word()) numbers[Index(i)] = i;
  std::shuffle(numbers.begin(), numbers.end(), random);
  const int32_t most = sizes_.kind == TreeKind::kNary ? 3 : size;
  r.parents.assign(Index(size), -1);
  for (size_t i = 1; i < numbers.size(); ++i) {
    size_t parent = Index(below(i));
    while (degree[parent] == most) parent = Index(below(i));
    ++degree[parent];
    r.parents[Index(numbers[i])] = numbers[parent];
  }
  return r;
}

TreeRequest TreeModel::Together(const std::vector<TreeRequest>& requests) {
  TreeRequest all;
  const auto append = [](std::vector<int32_t>& to, const std::vector<int32_t>& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const TreeRequest& r : requests) {
    append(all.tokens, r.tokens);
    append(all.children, r.children);
    append(all.parents, r.parents);
    append(all.types, r.types);
    all.lengths.push_back(static_cast<int32_t>(r.tokens.size()));
  }
  return all;
}

CellGraph TreeModel::Graph(const TreeRequest& request,
                           std::vector<std::string_view> outputs) const {
  CellGraph graph;
  absl::Status s = unfolder().Unfold(request.Input(std::move(outputs)), graph);
  Check(s.ok(), s.ToString());
  s = graph.Seal(*model_, 1);
  Check(s.ok(), s.ToString());
  return graph;
}

// One tree, in the request's numbers; `order`: children before parents.
std::vector<TreeModel::Node> TreeModel::Nodes(const TreeRequest& request, size_t tree,
                                              size_t first_token, size_t first_internal,
                                              std::vector<int32_t>& order) const {
  const size_t length =
      request.lengths.empty() ? request.tokens.size() : Index(request.lengths[tree]);
  std::vector<Node> nodes(request.parents.empty() ? 2 * length - 1 : length);
  for (size_t i = 0; i < length; ++i) nodes[i].token = request.tokens[first_token + i];
  int32_t root = static_cast<int32_t>(nodes.size()) - 1;
  if (request.parents.empty()) {
    for (size_t i = length; i < nodes.size(); ++i) {
      const size_t row = first_internal + i - length;
      nodes[i].children = {request.children[2 * row], request.children[2 * row + 1]};
    }
  } else {
    for (size_t i = 0; i < length; ++i) {
      const int32_t parent = request.parents[first_token + i];
      (parent < 0 ? root : nodes[Index(parent)].children.emplace_back()) = static_cast<int32_t>(i);
    }
  }
  size_t internal = first_internal;
  for (Node& node : nodes) {
    if (node.children.empty()) continue;
    node.type = request.types.empty() ? 0 : request.types[internal];
    ++internal;
  }
  order = {root};
  for (size_t at = 0; at < order.size(); ++at) {
    const std::vector<int32_t>& children = nodes[Index(order[at])].children;
    order.insert(order.end(), children.begin(), children.end());
  }
  std::reverse(order.begin(), order.end());
  return nodes;
}

Vector TreeModel::Parameter(CellTypeId id, const char* name) const {
  const CellType& type = model_->type(id);
  for (size_t p = 0; p < type.weights.size(); ++p) {
    if (type.definition->parameters()[p].name != name) continue;
    const Weight& weight = type.weights[p];
    return Vector(weight.data.get(), weight.data.get() + weight.shape.size());
  }
  Check(false, fmt::format("no parameter {}", name));
  return {};
}

Vector TreeModel::Product(CellTypeId type, const char* matrix, const Vector& x) const {
  const Vector w = Parameter(type, matrix);
  Vector y(w.size() / x.size(), 0.0);
  for (size_t i = 0; i < w.size(); ++i) y[i / x.size()] += w[i] * x[i % x.size()];
  return y;
}

Vector TreeModel::Word(CellTypeId type, int32_t token) const {
  const Vector table = Parameter(type, "E");
  const auto row = table.begin() + int64_t{token} * sizes_.width;
  return Vector(row, row + sizes_.width);
}

void TreeModel::ComputeLeaf(Node& node) const {
  Vector gates = Product(spec_.leaf, "W", Word(spec_.leaf, node.token));
  AddTo(gates, Parameter(spec_.leaf, "b"));
  node.c = Added(gates, Index(sizes_.hidden));
  node.h = Shown(gates, node.c);
}

void TreeModel::ComputeBinary(const std::vector<Node>& nodes, Node& node) const {
  const CellTypeId type = spec_.internal[Index(node.type)];
  Vector both;
  for (const int32_t child : node.children) {
    both.insert(both.end(), nodes[Index(child)].h.begin(), nodes[Index(child)].h.end());
  }
  Vector gates = Product(type, "U", both);
  AddTo(gates, Parameter(type, "b"));
  node.c = Added(gates, Index(sizes_.hidden));
  for (size_t k = 0; k < 2; ++k) {
    const Node& child = nodes[Index(node.children[k])];
    Vector f = Product(type, k == 0 ? "U_f0" : "U_f1", child.h);
    AddTo(f, Parameter(type, "b_f"));
    for (size_t i = 0; i < f.size(); ++i) node.c[i] += Sigmoid(f[i]) * child.c[i];
  }
  node.h = Shown(gates, node.c);
}

void TreeModel::ComputeNary(const std::vector<Node>& nodes, Node& node) const {
  const CellTypeId type = spec_.internal[0];
  Vector gates = Parameter(type, "b");
  AddTo(gates, Product(type, "W", Word(spec_.embedding, node.token)));
  const char* const matrices[] = {"U0", "U1", "U2"};
  for (size_t k = 0; k < node.children.size(); ++k) {
    AddTo(gates, Product(type, matrices[k], nodes[Index(node.children[k])].h));
  }
  const size_t n = Index(sizes_.hidden);
  node.c = Added(gates, n);
  for (size_t k = 0; k < node.children.size(); ++k) {
    const Node& child = nodes[Index(node.children[k])];
    for (size_t i = 0; i < n; ++i) node.c[i] += Sigmoid(gates[(3 + k) * n + i]) * child.c[i];
  }
  node.h = Shown(gates, node.c);
}

void TreeModel::ComputeChildSum(const std::vector<Node>& nodes, Node& node) const {
  const CellTypeId type = spec_.internal[0];
  Vector sum(Index(sizes_.hidden), 0.0);
  for (const int32_t child : node.children) AddTo(sum, nodes[Index(child)].h);
  Vector gates = Product(type, "W", Word(type, node.token));
  AddTo(gates, Product(type, "U", sum));
  AddTo(gates, Parameter(type, "b"));
  node.c = Added(gates, Index(sizes_.hidden));
  for (const int32_t number : node.children) {
    const Node& child = nodes[Index(number)];
    Vector f = Product(spec_.edge, "W_f", Word(spec_.edge, node.token));
    AddTo(f, Product(spec_.edge, "U_f", child.h));
    AddTo(f, Parameter(spec_.edge, "b_f"));
    for (size_t i = 0; i < f.size(); ++i) node.c[i] += Sigmoid(f[i]) * child.c[i];
  }
  node.h = Shown(gates, node.c);
}

void TreeModel::Compute(std::vector<Node>& nodes, Node& node) const {
  if (node.type < 0 && spec_.leaf.valid()) {
    ComputeLeaf(node);
  } else if (sizes_.kind == TreeKind::kNary) {
    ComputeNary(nodes, node);
  } else if (node_tokens()) {
    ComputeChildSum(nodes, node);
  } else {
    ComputeBinary(nodes, node);
  }
  if (!spec_.output.valid()) return;
  node.y = Product(spec_.output, "W", node.h);
  AddTo(node.y, Parameter(spec_.output, "b"));
}

TreeModel::Answers TreeModel::Reference(const TreeRequest& request) const {
  Answers answers;
  const auto append = [](Vector& to, const Vector& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  size_t first_token = 0, first_internal = 0;
  for (size_t t = 0; t < std::max<size_t>(1, request.lengths.size()); ++t) {
    std::vector<int32_t> order;
    std::vector<Node> nodes = Nodes(request, t, first_token, first_internal, order);
    for (const int32_t number : order) Compute(nodes, nodes[Index(number)]);
    for (const Node& node : nodes) {
      append(answers.h, node.h);
      append(answers.c, node.c);
      append(answers.y, node.y);
      first_internal += node.children.empty() ? 0 : 1;
      first_token += node.token >= 0 ? 1 : 0;
    }
    const Node& root = nodes[Index(order.back())];
    append(answers.root_h, root.h);
    append(answers.root_c, root.c);
    append(answers.root_y, root.y);
  }
  return answers;
}

}  // namespace cellbatch::testing
