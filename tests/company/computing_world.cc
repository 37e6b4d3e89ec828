#include "tests/company/computing_world.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cells/check.h"
#include "tests/testing/builders.h"
#include "tests/testing/cell_builder.h"

namespace cellbatch::company {
namespace {

using testing::CellBuilder;

// One cell being written, with what all of them are made of.
class Writer {
 public:
  explicit Writer(const std::string& name) : b_(name) {}

  CellBuilder& b() { return b_; }
  // Of the row's two words the second: what MakeInputs numbers.
  ValueId Token(const std::string& input) {
    const ValueId both =
        b_.Read(input, "token", sim::kTokenWords, ElementType::kInt32, Arity::kOne);
    return b_.Lookup(b_.Matrix("E", kNumTokens, kUnits), b_.Slice(both, 1, 2));
  }
  // W v, with a matrix of its own.
  ValueId Product(ValueId v, int32_t units = kUnits) {
    return b_.MatMul(v, b_.Matrix(absl::StrCat("W", matrices_++), units, kUnits));
  }
  // b + W v0 + W v1 ..
  ValueId Affine(const std::vector<ValueId>& of, int32_t units = kUnits) {
    ValueId sum = b_.Vector(absl::StrCat("b", vectors_++), units);
    for (const ValueId v : of) sum = b_.Add(sum, Product(v, units));
    return sum;
  }
  // What an LSTM makes of its inputs and the states that it keeps part of.
  void LeaveState(const std::vector<ValueId>& of, const std::vector<ValueId>& kept) {
    ValueId c = b_.Mul(b_.Sigmoid(Affine(of)), b_.Tanh(Affine(of)));
    for (const ValueId before : kept) c = b_.Add(c, b_.Mul(b_.Sigmoid(Affine(of)), before));
    const ValueId h = b_.Mul(b_.Sigmoid(Affine(of)), b_.Tanh(c));
    b_.Leave("h", h);
    b_.Leave("c", c);
  }
  void LeaveWord(ValueId h) {
    b_.Leave("h", h);
    b_.Leave("word", b_.Op1(OpKind::kArgMax, Affine({h}, kNumWords)));
  }

 private:
  CellBuilder b_;
  int matrices_ = 0, vectors_ = 0;
};

struct State {
  ValueId h, c;
};

State Read(Writer& w, const std::string& input, Arity arity = Arity::kOne) {
  return {w.b().Read(input, "h", kUnits, ElementType::kFp32, arity),
          w.b().Read(input, "c", kUnits, ElementType::kFp32, arity)};
}

State Carry(Writer& w, const std::string& input) {
  return {w.b().Carry(input, "h", kUnits), w.b().Carry(input, "c", kUnits)};
}

CellDefinition Chain() {
  Writer w("chain");
  const ValueId x = w.Token("x");
  const State prev = Carry(w, "prev");
  w.LeaveState({x, prev.h}, {prev.c});
  return w.b().Build();
}

CellDefinition Stack() {
  Writer w("stack");
  const State x = Read(w, "x");
  const State prev = Carry(w, "prev");
  w.LeaveState({x.h, x.c, prev.h}, {prev.c});
  return w.b().Build();
}

CellDefinition Leaf() {
  Writer w("leaf");
  w.LeaveState({w.Token("x")}, {});
  return w.b().Build();
}

CellDefinition Over(const std::string& name, const std::vector<std::string>& children) {
  Writer w(name);
  std::vector<ValueId> h, c;
  for (const std::string& child : children) {
    const State s = Read(w, child);
    h.push_back(s.h);
    c.push_back(s.c);
  }
  w.LeaveState(h, c);
  return w.b().Build();
}

CellDefinition Bridge() {
  Writer w("bridge");
  const State x = Read(w, "x");
  w.LeaveWord(w.b().Tanh(w.Affine({x.h, x.c})));
  return w.b().Build();
}

CellDefinition Decoder() {
  Writer w("decoder");
  const ValueId h = w.b().Carry("prev", "h", kUnits);
  const ValueId word = w.b().Carry("prev", "word", 1, ElementType::kInt32);
  const ValueId x = w.b().Lookup(w.b().Matrix("E", kNumWords, kUnits), word);
  w.LeaveWord(w.b().Tanh(w.Affine({x, h})));
  return w.b().Build();
}

CellDefinition Project() {
  Writer w("project");
  const ValueId h = w.b().Read("x", "h", kUnits);
  const ValueId word = w.b().Read("x", "word", 1, ElementType::kInt32);
  w.LeaveState({h, w.b().Lookup(w.b().Matrix("E", kNumWords, kUnits), word)}, {h});
  return w.b().Build();
}

CellDefinition Edge() {
  Writer w("edge");
  const State child = Read(w, "child");
  const ValueId x = w.Token("x");
  w.b().Leave("f", w.b().Mul(w.b().Sigmoid(w.Affine({child.h, x})), child.c));
  return w.b().Build();
}

CellDefinition Gather() {
  Writer w("gather");
  const ValueId x = w.Token("x");
  const ValueId f = w.b().Read("edges", "f", kUnits, ElementType::kFp32, Arity::kSum);
  w.LeaveState({x, f}, {f});
  return w.b().Build();
}

CellDefinition Merge() {
  Writer w("merge");
  const ValueId x = w.Token("x");
  const State states = Read(w, "states", Arity::kSum);
  w.LeaveState({x, states.h}, {states.c});
  return w.b().Build();
}

CellDefinition Head() {
  Writer w("head");
  const State x = Read(w, "x");
  w.b().Leave("y", w.b().Op1(OpKind::kSoftmax, w.Affine({x.h, x.c}, sim::kLogitWidth)));
  return w.b().Build();
}

}  // namespace

std::shared_ptr<const Model> MakeComputingModel(ModelId id, sim::Limits limits, uint64_t seed) {
  const std::shared_ptr<const Model> like = sim::MakeModel(id, limits);
  auto model = std::make_shared<Model>(*like);
  const Column h{"h", ElementType::kFp32, kUnits}, c{"c", ElementType::kFp32, kUnits};
  model->tables = {{"tokens", {{"token", ElementType::kInt32, sim::kTokenWords}}},
                   {"state", {h, c}},
                   {"words", {h, {"word", ElementType::kInt32, 1}}},
                   {"logits", {{"y", ElementType::kFp32, sim::kLogitWidth}}},
                   {"edges", {{"f", ElementType::kFp32, kUnits}}}};
  CellDefinition cells[] = {Chain(),
                            Stack(),
                            Leaf(),
                            Over("pair", {"left", "right"}),
                            Over("triple", {"left", "right", "up"}),
                            Bridge(),
                            Decoder(),
                            Project(),
                            Edge(),
                            Gather(),
                            Merge(),
                            Head()};
  for (size_t t = 0; t < model->types.size(); ++t) {
    model->types[t].weights = testing::RandomWeights(cells[t], seed + t, 2.0f);
    model->types[t].definition = std::make_shared<const CellDefinition>(std::move(cells[t]));
  }
  const absl::Status valid = model->Validate();
  Check(valid.ok(), valid.ToString());
  return model;
}

}  // namespace cellbatch::company
