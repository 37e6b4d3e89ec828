#include "cells/unfold/node_type.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cells/cell_graph.h"
#include "cells/unfold/type_check.h"

namespace cellbatch {

absl::StatusOr<int32_t> SetPhases(absl::Span<const int32_t> phases, absl::Span<NodeType> types) {
  if (phases.empty()) return 1;
  if (phases.size() != types.size()) {
    return absl::InvalidArgumentError(
        fmt::format("{} phases for {} types", phases.size(), types.size()));
  }
  int32_t count = 1;
  for (size_t t = 0; t < types.size(); ++t) {
    if (phases[t] < 0 || phases[t] >= kMostPhases) {
      return absl::InvalidArgumentError(
          fmt::format("type \"{}\" is of phase {}, allowed are 0 to {}", types[t].name, phases[t],
                      kMostPhases - 1));
    }
    types[t].phase = phases[t];
    count = std::max(count, phases[t] + 1);
  }
  return count;
}

absl::StatusOr<NodeType> MakeNodeType(const Model& model, CellTypeId id) {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& cell = **found;
  NodeType type{.id = id,
                .name = cell.name,
                .out = cell.out,
                .leaves = ColumnsText(cell.definition->columns()),
                .ports = {}};
  const absl::Span<const Input> inputs = cell.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    type.ports.push_back({.name = fmt::format("{}.{}", cell.name, inputs[i].name),
                          .table = cell.in[i],
                          .sums = inputs[i].arity == Arity::kSum,
                          .carry = cell.definition->carry() == InputId(static_cast<int64_t>(i)),
                          .reads = ColumnsText(model.table(cell.in[i]).columns),
                          .known = {}});
    type.chain = type.chain || type.ports.back().carry;
    type.sums = type.sums || type.ports.back().sums;
  }
  return type;
}

absl::Status MarkBrought(const Model& model, const BroughtInput& input,
                         absl::Span<NodeType> types) {
  const auto wrong = [](std::string text) { return absl::InvalidArgumentError(std::move(text)); };
  const auto type = std::find_if(types.begin(), types.end(),
                                 [&](const NodeType& t) { return t.id == input.type; });
  if (type == types.end() || !input.input.valid() ||
      static_cast<size_t>(input.input.value()) >= type->ports.size()) {
    return wrong(fmt::format("the request brings input {} of cell type {}, which is not there",
                             input.input.value(), input.type.value()));
  }
  Port& port = type->ports[static_cast<size_t>(input.input.value())];
  const TableSpec& table = model.table(port.table);
  if (port.sums || port.carry) {
    return wrong(fmt::format("the request cannot bring {}, which {}", port.name,
                             port.sums ? "sums nodes" : "is carried"));
  }
  if (table.columns.size() != 1 || table.columns[0].type == ElementType::kBf16) {
    return wrong(
        fmt::format("the request cannot bring {}: its rows have {} columns, expected is "
                    "one of FP32 or INT32",
                    port.name, table.columns.size()));
  }
  if (input.known.unknown && !input.known.Has(*input.known.unknown)) {
    return wrong(fmt::format("{}: unknown numbers as {}, the vocabulary ends at {}", port.name,
                             *input.known.unknown, input.known.size - 1));
  }
  port.brought = true;
  port.element = table.columns[0].type;
  port.width = table.columns[0].width;
  port.known = input.known;
  return absl::OkStatus();
}

}  // namespace cellbatch
