#include "cells/empty_cell.h"

#include <cstdint>
#include <utility>

namespace cellbatch {

absl::StatusOr<std::shared_ptr<const CellDefinition>> EmptyCell(std::string name,
                                                                std::vector<Input> inputs,
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
    const bool word = column.type == ElementType::kInt32;
    ValueId value =
        add({.kind = OpKind::kConstant, .shape = Shape::Vector(word ? 1 : column.width)});
    if (word) value = add({.kind = OpKind::kArgMax, .args = {value}, .type = ElementType::kInt32});
    outputs.push_back({column.name, value});
  }
  auto made = CellDefinition::Create(std::move(name), ops, std::move(inputs), {}, outputs, carry);
  if (!made.ok()) return made.status();
  return std::make_shared<const CellDefinition>(*std::move(made));
}

}  // namespace cellbatch
