#include "tests/testing/builders.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cells/check.h"
#include "fmt/format.h"

namespace cellbatch::testing {
namespace {

// splitmix64: the same numbers on every machine and library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int32_t Below(int32_t n) { return static_cast<int32_t>(Next() % static_cast<uint64_t>(n)); }
  float Uniform() { return static_cast<float>(Next() >> 40) * 0x1p-23f - 1.0f; }  // [-1, 1)

 private:
  uint64_t state_;
};

// c' = f c + i g, h' = o tanh(c'), from the four gates before their functions.
void LeaveLstm(CellBuilder& b, const std::vector<ValueId>& gates, ValueId c) {
  const ValueId kept = b.Mul(b.Sigmoid(gates[1]), c);
  const ValueId added = b.Mul(b.Sigmoid(gates[0]), b.Tanh(gates[2]));
  const ValueId cell = b.Add(kept, added);
  b.Leave("h", b.Mul(b.Sigmoid(gates[3]), b.Tanh(cell)));
  b.Leave("c", cell);
}

std::vector<ValueId> Split(CellBuilder& b, ValueId stacked, int parts, int32_t h) {
  std::vector<ValueId> slices;
  for (int g = 0; g < parts; ++g) slices.push_back(b.Slice(stacked, g * h, (g + 1) * h));
  return slices;
}

// W x + b_in + (U h + b_rec), all gates stacked.
ValueId StackedGates(CellBuilder& b, ValueId x, int32_t d, ValueId h, int32_t n, int gates) {
  const ValueId w = b.Matrix("W", gates * n, d), u = b.Matrix("U", gates * n, n);
  const ValueId b_in = b.Vector("b_in", gates * n), b_rec = b.Vector("b_rec", gates * n);
  return b.Add(b.Add(b.MatMul(x, w), b_in), b.Add(b.MatMul(h, u), b_rec));
}

// h' = (1 - z) n + z h.
void LeaveGru(CellBuilder& b, ValueId z, ValueId n, ValueId h) {
  const ValueId one = b.Constant(1.0f);
  b.Leave("h", b.Add(b.Mul(b.Sub(one, z), n), b.Mul(z, h)));
}

}  // namespace

CellDefinition LstmCell(int32_t d, int32_t h, const std::string& x_column) {
  CellBuilder b("lstm");
  const ValueId x = b.Read("x", x_column, d), before = b.Carry("before", "h", h);
  const ValueId c = b.Carry("before", "c", h);
  LeaveLstm(b, Split(b, StackedGates(b, x, d, before, h, 4), 4, h), c);
  return b.Build();
}

CellDefinition LstmCellByGate(int32_t d, int32_t h) {
  CellBuilder b("lstm_by_gate");
  const ValueId x = b.Read("x", "x", d), before = b.Carry("before", "h", h);
  const ValueId c = b.Carry("before", "c", h);
  std::vector<ValueId> gates;
  for (const char* g : {"i", "f", "g", "o"}) {
    const ValueId from_x = b.MatMul(x, b.Matrix(fmt::format("W_{}", g), h, d));
    const ValueId from_h = b.MatMul(before, b.Matrix(fmt::format("U_{}", g), h, h));
    gates.push_back(b.Add(b.Vector(fmt::format("b_{}", g), h), b.Add(from_x, from_h)));
  }
  LeaveLstm(b, gates, c);
  return b.Build();
}

CellDefinition LstmCellConcat(int32_t d, int32_t h) {
  CellBuilder b("lstm_concat");
  const ValueId x = b.Read("x", "x", d), before = b.Carry("before", "h", h);
  const ValueId c = b.Carry("before", "c", h);
  const ValueId product = b.MatMul(b.Concat(x, before), b.Matrix("WU", 4 * h, d + h));
  LeaveLstm(b, Split(b, b.Add(product, b.Vector("b", 4 * h)), 4, h), c);
  return b.Build();
}

CellDefinition TokenLstmCell(int32_t v, int32_t e, int32_t h) {
  CellBuilder b("token_lstm");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  const ValueId before = b.Carry("before", "h", h), c = b.Carry("before", "c", h);
  const ValueId x = b.Lookup(b.Matrix("E", v, e), token);
  LeaveLstm(b, Split(b, StackedGates(b, x, e, before, h, 4), 4, h), c);
  return b.Build();
}

CellDefinition TwoInputLstmCell(int32_t d1, int32_t d2, int32_t h) {
  CellBuilder b("two_input_lstm");
  const ValueId x = b.Read("x", "x", d1), y = b.Read("y", "y", d2);
  const ValueId before = b.Carry("before", "h", h), c = b.Carry("before", "c", h);
  LeaveLstm(b, Split(b, StackedGates(b, b.Concat(x, y), d1 + d2, before, h, 4), 4, h), c);
  return b.Build();
}

CellDefinition GruCell(int32_t d, int32_t h, const std::string& x_column) {
  CellBuilder b("gru");
  const ValueId x = b.Read("x", x_column, d), before = b.Carry("before", "h", h);
  const ValueId w = b.Matrix("W", 3 * h, d), u = b.Matrix("U", 3 * h, h);
  const ValueId in = b.Add(b.MatMul(x, w), b.Vector("b_in", 3 * h));
  const ValueId rec = b.Add(b.MatMul(before, u), b.Vector("b_rec", 3 * h));
  const std::vector<ValueId> i = Split(b, in, 3, h), r = Split(b, rec, 3, h);
  const ValueId reset = b.Sigmoid(b.Add(i[0], r[0])), z = b.Sigmoid(b.Add(i[1], r[1]));
  LeaveGru(b, z, b.Tanh(b.Add(i[2], b.Mul(reset, r[2]))), before);
  return b.Build();
}

CellDefinition GruV1Cell(int32_t d, int32_t h) {
  CellBuilder b("gru_v1");
  const ValueId x = b.Read("x", "x", d), before = b.Carry("before", "h", h);
  std::vector<ValueId> in;
  for (const char* g : {"r", "z", "n"}) {
    const ValueId w = b.Matrix(fmt::format("W_{}", g), h, d);
    in.push_back(b.Add(b.MatMul(x, w), b.Vector(fmt::format("b_{}", g), h)));
  }
  const ValueId reset = b.Sigmoid(b.Add(in[0], b.MatMul(before, b.Matrix("U_r", h, h))));
  const ValueId z = b.Sigmoid(b.Add(in[1], b.MatMul(before, b.Matrix("U_z", h, h))));
  const ValueId kept = b.MatMul(b.Mul(reset, before), b.Matrix("U_n", h, h));
  LeaveGru(b, z, b.Tanh(b.Add(in[2], kept)), before);
  return b.Build();
}

CellDefinition GrusSideBySide(int32_t h, int count, bool alike) {
  CellBuilder b("grus");
  const ValueId x = b.Read("x", "x", h);
  ValueId sum;
  for (int i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    const int32_t n = alike ? h : h + i;
    const ValueId before = b.Read("before" + std::to_string(i / 16), "h" + name, n);
    const ValueId in = b.MatMul(x, b.Matrix("W" + name, 3 * n, h));
    const ValueId rec = b.MatMul(before, b.Matrix("U" + name, 3 * n, n));
    const auto part = [&](ValueId v, int gate) { return b.Slice(v, gate * n, (gate + 1) * n); };
    const ValueId r = b.Sigmoid(b.Add(part(in, 0), part(rec, 0)));
    const ValueId z = b.Sigmoid(b.Add(part(in, 1), part(rec, 1)));
    const ValueId now = b.Tanh(b.Add(part(in, 2), b.Mul(r, part(rec, 2))));
    const ValueId after = b.Add(now, b.Mul(z, b.Sub(before, now)));
    if (count <= kMaxColumns) {
      b.Leave("h" + name, after);
      continue;
    }
    const ValueId share = alike ? after : b.Op1(OpKind::kMean, after);
    sum = i == 0 ? share : b.Add(sum, share);
  }
  if (count > kMaxColumns) b.Leave("sum", sum);
  return b.Build();
}

CellDefinition ElmanCell(int32_t d, int32_t h, OpKind activation) {
  CellBuilder b("elman");
  const ValueId x = b.Read("x", "x", d), before = b.Carry("before", "h", h);
  b.Leave("h", b.Op1(activation, StackedGates(b, x, d, before, h, 1)));
  return b.Build();
}

CellDefinition LinearCell(int32_t d, int32_t n, const std::string& x_column) {
  CellBuilder b("linear");
  const ValueId x = b.Read("x", x_column, d);
  b.Leave("y", b.Add(b.MatMul(x, b.Matrix("W", n, d)), b.Vector("b", n)));
  return b.Build();
}

CellDefinition EmbeddingCell(int32_t v, int32_t e) {
  CellBuilder b("embed");
  const ValueId token = b.Read("token", "token", 1, ElementType::kInt32);
  b.Leave("x", b.Lookup(b.Matrix("E", v, e), token));
  return b.Build();
}

CellDefinition ChildSumCell(int32_t d, int32_t h) {
  CellBuilder b("child_sum");
  const ValueId x = b.Read("x", "x", d);
  const ValueId children = b.Read("children", "h", h, ElementType::kFp32, Arity::kSum);
  b.Leave("h", b.Tanh(StackedGates(b, x, d, children, h, 1)));
  return b.Build();
}

CellDefinition DecodeCell(int32_t h, int32_t v) {
  CellBuilder b("decode");
  const ValueId x = b.Read("x", "h", h);
  const ValueId logits = b.Add(b.MatMul(x, b.Matrix("W", v, h)), b.Vector("b", v));
  b.Leave("word", b.Op1(OpKind::kArgMax, logits));
  b.Leave("p", b.Op1(OpKind::kSoftmax, logits));
  return b.Build();
}

namespace {

// Grows a pool of values of three odd widths, one random operator at a time.
class RandomCellMaker {
 public:
  explicit RandomCellMaker(uint64_t seed, bool of_parameters = false)
      : r_(seed), b_(fmt::format("random_{}", seed)), of_parameters_(of_parameters) {}

  CellDefinition Make() {
    const int32_t h = Width();
    const ValueId x = b_.Read("x", "x", Width()), before = b_.Carry("before", "h", h);
    values_ = {{x, last_width_}, {before, h}};
    values_.push_back({Product(values_[0], h), h});
    const int ops = 3 + r_.Below(14);
    for (int i = 0; i < ops; ++i) values_.push_back(Step());
    const ValueId recurrent = b_.MatMul(before, Matrix(h, h));
    const ValueId sum = b_.Add(recurrent, Product(values_.back(), h));
    b_.Leave("h", b_.Tanh(sum));
    if (r_.Below(2) == 0) b_.Leave("extra", Bounded(values_.back()).first);
    if (r_.Below(3) == 0) b_.Leave("word", b_.Op1(OpKind::kArgMax, sum));
    if (of_parameters_ && r_.Below(2) == 0) b_.Leave("fixed", OfParameters(Width(), 2));
    return b_.Build();
  }

 private:
  using Value = std::pair<ValueId, int32_t>;  // and its width

  int32_t Width() { return last_width_ = 1 + r_.Below(3) * 7 + r_.Below(20); }
  ValueId Matrix(int32_t rows, int32_t cols) {
    return b_.Matrix(fmt::format("p{}", parameters_++), rows, cols);
  }
  ValueId Product(Value x, int32_t n) {
    ValueId weights = Matrix(n, x.second);
    if (of_parameters_ && r_.Below(4) == 0) weights = b_.Mul(weights, b_.Sigmoid(weights));
    const ValueId product = b_.MatMul(x.first, weights);
    return of_parameters_ && r_.Below(3) == 0 ? b_.Add(product, OfParameters(n, 2)) : product;
  }
  ValueId OfParameters(int32_t n, int depth);
  Value Any() {
    return values_[static_cast<size_t>(r_.Below(static_cast<int32_t>(values_.size())))];
  }
  Value Bounded(Value v) { return {b_.Tanh(v.first), v.second}; }
  // Some value of width n: one there is, a parameter, a constant, or a product.
  ValueId Of(int32_t n) {
    for (int tries = 0; tries < 6; ++tries) {
      const Value v = Any();
      if (v.second == n) return v.first;
    }
    if (of_parameters_ && r_.Below(2) == 0) return OfParameters(n, 3);
    if (r_.Below(4) == 0) return Matrix(1, n);
    if (r_.Below(6) == 0) return b_.Constant(r_.Uniform());
    return Product(Any(), n);
  }
  Value Step();
  Value Binary(Value a);
  Value Reduction(Value a);

  Random r_;
  CellBuilder b_;
  std::vector<Value> values_;
  int32_t last_width_ = 0;
  int parameters_ = 0;
  const bool of_parameters_;
};

// A vector of width n, of operators over parameters and constants; a few of the parameters are read elsewhere, too.
ValueId RandomCellMaker::OfParameters(int32_t n, int depth) {
  if (parameters_ > 40) return b_.Constant(r_.Uniform(), Shape::Vector(n));
  if (depth == 0) {
    const ValueId parameter = Matrix(1, n);
    if (r_.Below(3) == 0) values_.push_back({parameter, n});
    return parameter;
  }
  switch (r_.Below(9)) {
    case 0:
      return b_.Op1(OpKind::kExp, b_.Tanh(OfParameters(n, depth - 1)));
    case 1:
      return b_.Sub(b_.Constant(1.0f), b_.Sigmoid(OfParameters(n, depth - 1)));
    case 2:
      return b_.Mul(b_.Sigmoid(OfParameters(n, depth - 1)), b_.Tanh(OfParameters(n, depth - 1)));
    case 3:
      return b_.Add(OfParameters(n, depth - 1), OfParameters(n, depth - 1));
    case 4: {
      const int32_t k = 1 + r_.Below(20);
      return b_.MatMul(OfParameters(k, depth - 1), Matrix(n, k));
    }
    case 5:
      return b_.Op1(OpKind::kSoftmax, OfParameters(n, depth - 1));
    case 6:  // a number beside vectors
      return b_.Mul(b_.Op1(OpKind::kMean, OfParameters(9, depth - 1)), OfParameters(n, 0));
    case 7: {
      const int32_t more = 1 + r_.Below(9);
      return b_.Slice(b_.Concat(OfParameters(n, depth - 1), OfParameters(more, 0)), more, more + n);
    }
    default:
      return b_.Lookup(Matrix(3, n), b_.Integer(r_.Below(3)));
  }
}

RandomCellMaker::Value RandomCellMaker::Binary(Value a) {
  constexpr OpKind kKinds[] = {OpKind::kAdd, OpKind::kSub, OpKind::kMul, OpKind::kMax};
  const ValueId other = Of(a.second);
  switch (r_.Below(6)) {
    case 0: {  // a / (2 + tanh(other)): far from zero
      const ValueId below = b_.Add(b_.Constant(2.0f), b_.Tanh(other));
      return {b_.Op2(OpKind::kDiv, a.first, below), a.second};
    }
    case 1:
      return {b_.Op1(OpKind::kExp, Bounded(a).first), a.second};
    case 2: {  // log(1.5 + tanh(a))
      const ValueId above = b_.Add(Bounded(a).first, b_.Constant(1.5f));
      return {b_.Op1(OpKind::kLog, above), a.second};
    }
    default:
      return {b_.Op2(kKinds[r_.Below(4)], Bounded(a).first, other), a.second};
  }
}

RandomCellMaker::Value RandomCellMaker::Reduction(Value a) {
  switch (r_.Below(3)) {
    case 0:
      return {b_.Op1(OpKind::kSoftmax, a.first), a.second};
    case 1:  // a scalar meets a vector
      return {b_.Mul(b_.Op1(OpKind::kMean, a.first), a.first), a.second};
    default:
      return {b_.Op1(OpKind::kMean, a.first), 1};
  }
}

RandomCellMaker::Value RandomCellMaker::Step() {
  const Value a = Any();
  switch (r_.Below(10)) {
    case 0:
    case 1: {
      const int32_t n = Width();
      return {Product(a, n), n};
    }
    case 2: {
      const int32_t begin = r_.Below(a.second), end = begin + 1 + r_.Below(a.second - begin);
      return {b_.Slice(a.first, begin, end), end - begin};
    }
    case 3: {
      const Value c = Any();
      if (a.second + c.second > 120) return Bounded(a);
      return {b_.Concat(a.first, c.first), a.second + c.second};
    }
    case 4:
      return Reduction(a);
    case 5:
      return {b_.Sigmoid(a.first), a.second};
    case 6:
      return {b_.Op1(OpKind::kRelu, a.first), a.second};
    default:
      return Binary(a);
  }
}

}  // namespace

CellDefinition RandomCell(uint64_t seed) { return RandomCellMaker(seed).Make(); }

CellDefinition RandomCellOfParameters(uint64_t seed) {
  return RandomCellMaker(seed, /*of_parameters=*/true).Make();
}

std::vector<float> RandomFloats(int64_t n, uint64_t seed, float scale) {
  Random random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = scale * random.Uniform();
  return values;
}

Weights RandomWeights(const CellDefinition& cell, uint64_t seed, float scale) {
  Weights weights;
  for (const Parameter& p : cell.parameters()) {
    const float bound = scale / std::sqrt(static_cast<float>(p.shape.cols));
    const std::vector<float> values =
        RandomFloats(p.shape.size(), seed * 1000003 + weights.size(), bound);
    std::shared_ptr<float[]> data(new float[values.size()]);
    std::copy(values.begin(), values.end(), data.get());
    weights.push_back({std::move(data), p.shape});
  }
  return weights;
}

ModelBuilder::ModelBuilder(std::string name) : model_(std::make_shared<Model>()) {
  model_->id = ModelId(0);
  model_->name = std::move(name);
}

TableId ModelBuilder::TableWith(const std::string& name, std::vector<Column> columns) {
  for (size_t i = 0; i < model_->tables.size(); ++i) {
    if (model_->tables[i].columns == columns) return TableId(static_cast<int64_t>(i));
  }
  model_->tables.push_back({name, std::move(columns)});
  return TableId(static_cast<int64_t>(model_->tables.size()) - 1);
}

CellTypeId ModelBuilder::Add(CellDefinition cell, uint64_t weight_seed) {
  CellType type;
  type.id = CellTypeId(static_cast<int64_t>(model_->types.size()));
  type.name = fmt::format("{}_{}", cell.name(), type.id.value());
  type.weights = RandomWeights(cell, weight_seed);
  type.out = TableWith(type.name, {cell.columns().begin(), cell.columns().end()});
  for (size_t i = 0; i < cell.inputs().size(); ++i) {
    const Input& input = cell.inputs()[i];
    const bool is_own =
        input.arity == Arity::kSum || cell.carry() == InputId(static_cast<int64_t>(i));
    type.in.push_back(is_own ? type.out : TableWith(input.reads[0].name, input.reads));
  }
  type.definition = std::make_shared<const CellDefinition>(std::move(cell));
  model_->types.push_back(std::move(type));
  return model_->types.back().id;
}

void ModelBuilder::Connect(CellTypeId to, const std::string& input, CellTypeId from) {
  CellType& type = model_->types[static_cast<size_t>(to.value())];
  for (size_t i = 0; i < type.in.size(); ++i) {
    if (type.definition->inputs()[i].name == input) type.in[i] = model_->type(from).out;
  }
}

std::shared_ptr<Model> ModelBuilder::Build() {
  const absl::Status status = model_->Validate();
  Check(status.ok(), status.ToString());
  return model_;
}

std::shared_ptr<Model> OneCellModel(CellDefinition cell, uint64_t weight_seed) {
  ModelBuilder builder(cell.name());
  builder.Add(std::move(cell), weight_seed);
  return builder.Build();
}

TableId FindTable(const Model& model, const std::string& name) {
  for (size_t i = 0; i < model.tables.size(); ++i) {
    if (model.tables[i].name == name) return TableId(static_cast<int64_t>(i));
  }
  Check(false, "no table named " + name);
  return {};
}

}  // namespace cellbatch::testing
