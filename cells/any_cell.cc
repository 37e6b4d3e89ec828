#include "cells/any_cell.h"

#include <utility>

#include "cells/check.h"

namespace cellbatch::testing {

std::shared_ptr<const CellDefinition> AnyCell(std::string name, std::vector<Input> inputs,
                                              const std::vector<Column>& leaves,
                                              std::optional<InputId> carry) {
  std::vector<Op> ops;
  const auto add = [&](Op op) {
    ops.push_back(std::move(op));
    return ValueId(static_cast<int64_t>(ops.size()) - 1);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t j = 0; j < inputs[i].reads.size(); ++j) {
      const Column& read = inputs[i].reads[j];
      add({.kind = OpKind::kInput,
           .attr = {static_cast<int32_t>(i), static_cast<int32_t>(j)},
           .shape = Shape::Vector(read.width),
           .type = read.type});
    }
  }
  std::vector<Output> outputs;
  for (const Column& column : leaves) {
    ValueId value = add({.kind = OpKind::kConstant, .shape = Shape::Vector(column.width)});
    if (column.type == ElementType::kInt32) {
      value = add({.kind = OpKind::kArgMax, .args = {value}, .type = ElementType::kInt32});
    }
    outputs.push_back({column.name, value});
  }
  auto made = CellDefinition::Create(std::move(name), ops, std::move(inputs), {}, outputs, carry);
  Check(made.ok(), std::string(made.status().message()));
  return std::make_shared<CellDefinition>(*std::move(made));
}

}  // namespace cellbatch::testing
