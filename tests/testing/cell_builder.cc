#include "tests/testing/cell_builder.h"

#include <bit>

#include "cells/check.h"

namespace cellbatch::testing {

ValueId CellBuilder::Make(OpKind kind, std::array<ValueId, 3> args, std::array<int32_t, 2> attr,
                          Shape shape) {
  ops_.push_back({.kind = kind, .args = args, .attr = attr, .shape = shape});
  return ValueId(static_cast<int64_t>(ops_.size()) - 1);
}

int32_t CellBuilder::InputNumber(const std::string& name, Arity arity) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].name == name) return static_cast<int32_t>(i);
  }
  inputs_.push_back({name, {}, arity});
  return static_cast<int32_t>(inputs_.size()) - 1;
}

ValueId CellBuilder::Read(const std::string& input, const std::string& column, int32_t width,
                          ElementType type, Arity arity) {
  const int32_t number = InputNumber(input, arity);
  std::vector<Column>& reads = inputs_[static_cast<size_t>(number)].reads;
  reads.push_back({column, type, width});
  return Make(OpKind::kInput, {}, {number, static_cast<int32_t>(reads.size()) - 1});
}

ValueId CellBuilder::Carry(const std::string& input, const std::string& column, int32_t width,
                           ElementType type) {
  const ValueId value = Read(input, column, width, type);
  carry_ = InputId(InputNumber(input, Arity::kOne));
  return value;
}

ValueId CellBuilder::Matrix(const std::string& name, int32_t rows, int32_t cols) {
  parameters_.push_back({name, Shape::Matrix(rows, cols)});
  return Make(OpKind::kParameter, {}, {static_cast<int32_t>(parameters_.size()) - 1, 0});
}

ValueId CellBuilder::Constant(float value, Shape shape) {
  return Make(OpKind::kConstant, {}, {std::bit_cast<int32_t>(value), 0}, shape);
}

ValueId CellBuilder::Integer(int32_t value, Shape shape) {
  const ValueId made = Make(OpKind::kConstant, {}, {value, 0}, shape);
  ops_.back().type = ElementType::kInt32;
  return made;
}

absl::StatusOr<CellDefinition> CellBuilder::TryBuild() const {
  return CellDefinition::Create(name_, ops_, inputs_, parameters_, outputs_, carry_);
}

CellDefinition CellBuilder::Build() const {
  absl::StatusOr<CellDefinition> cell = TryBuild();
  Check(cell.ok(), cell.status().ToString());
  return *std::move(cell);
}

}  // namespace cellbatch::testing
