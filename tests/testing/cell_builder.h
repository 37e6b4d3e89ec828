// Writes cell definitions in tests as short as in a paper:
//
//   CellBuilder b("elman");
//   ValueId x = b.Read("x", "x", d), h = b.Carry("before", "h", n);
//   b.Leave("h", b.Tanh(b.Add(b.MatMul(x, b.Matrix("W", n, d)), b.MatMul(h, b.Matrix("U", n,
//   n))))); CellDefinition cell = b.Build();
//
// For tests and benchmarks only: shipped cells are text. Build ends the process when the cell is
// wrong.
#ifndef CELLBATCH_TESTS_TESTING_CELL_BUILDER_H_
#define CELLBATCH_TESTS_TESTING_CELL_BUILDER_H_

#include <optional>
#include <string>
#include <vector>

#include "cells/cell_definition.h"

namespace cellbatch::testing {

class CellBuilder {
 public:
  explicit CellBuilder(std::string name) : name_(std::move(name)) {}

  // Column `column` of input `input`; the input is made when first named.
  ValueId Read(const std::string& input, const std::string& column, int32_t width,
               ElementType type = ElementType::kFp32, Arity arity = Arity::kOne);
  // The same of the input that a chain's node reads from the node before it.
  ValueId Carry(const std::string& input, const std::string& column, int32_t width,
                ElementType type = ElementType::kFp32);
  ValueId Matrix(const std::string& name, int32_t rows, int32_t cols);
  ValueId Vector(const std::string& name, int32_t n) { return Matrix(name, 1, n); }
  ValueId Constant(float value, Shape shape = {});
  ValueId Integer(int32_t value, Shape shape = {});  // an INT32 constant

  ValueId Op1(OpKind kind, ValueId a) { return Make(kind, {a}); }
  ValueId Op2(OpKind kind, ValueId a, ValueId b) { return Make(kind, {a, b}); }
  ValueId Lookup(ValueId table, ValueId index) { return Op2(OpKind::kLookup, table, index); }
  ValueId MatMul(ValueId x, ValueId w) { return Op2(OpKind::kMatMul, x, w); }
  ValueId Add(ValueId a, ValueId b) { return Op2(OpKind::kAdd, a, b); }
  ValueId Sub(ValueId a, ValueId b) { return Op2(OpKind::kSub, a, b); }
  ValueId Mul(ValueId a, ValueId b) { return Op2(OpKind::kMul, a, b); }
  ValueId Sigmoid(ValueId a) { return Op1(OpKind::kSigmoid, a); }
  ValueId Tanh(ValueId a) { return Op1(OpKind::kTanh, a); }
  ValueId Slice(ValueId a, int32_t begin, int32_t end) {
    return Make(OpKind::kSlice, {a}, {begin, end});
  }
  ValueId Concat(ValueId a, ValueId b, ValueId c = {}) { return Make(OpKind::kConcat, {a, b, c}); }

  void Leave(const std::string& column, ValueId value) { outputs_.push_back({column, value}); }

  absl::StatusOr<CellDefinition> TryBuild() const;
  CellDefinition Build() const;

 private:
  ValueId Make(OpKind kind, std::array<ValueId, 3> args, std::array<int32_t, 2> attr = {},
               Shape shape = {});
  int32_t InputNumber(const std::string& name, Arity arity);

  std::string name_;
  std::vector<Op> ops_;
  std::vector<Input> inputs_;
  std::vector<Parameter> parameters_;
  std::vector<Output> outputs_;
  std::optional<InputId> carry_;
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_TESTS_TESTING_CELL_BUILDER_H_
