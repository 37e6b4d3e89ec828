// What a model's cells must look like for graphs, checked once; requests are then unfolded without
// asking.
#include <fmt/format.h>

#include <algorithm>

#include "cells/unfold/chain_unfolder.h"
#include "cells/unfold/dag_unfolder.h"
#include "cells/unfold/type_check.h"

namespace cellbatch {
namespace {

constexpr size_t kMaxTypes = 256;

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("dag: {}", what));
}

}  // namespace

absl::Status DagUnfolder::AddType(const Model& model, const DagSpec& spec, CellTypeId id) {
  const absl::StatusOr<const CellType*> found = TypeOf(model, id);
  if (!found.ok()) return found.status();
  const CellType& cell = **found;
  Type type{.id = id, .name = cell.name, .out = cell.out, .ports = {}, .output = {}};
  type.sets = !cell.definition->carry().has_value();
  const absl::Span<const Input> inputs = cell.definition->inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    type.ports.push_back({.name = fmt::format("{}.{}", cell.name, inputs[i].name),
                          .table = cell.in[i],
                          .sums = inputs[i].arity == Arity::kSum,
                          .known = {}});
    if (type.ports.back().sums) type.sets = false;
  }
  type.output = ColumnNamed(cell, spec.output);
  if (!type.output.valid()) type.output = ColumnNamed(cell, spec.output, ElementType::kInt32);
  types_.push_back(std::move(type));
  return absl::OkStatus();
}

absl::Status DagUnfolder::AddRequestInput(const Model& model, const DagInput& input) {
  const auto type =
      std::find_if(types_.begin(), types_.end(), [&](const Type& t) { return t.id == input.type; });
  if (type == types_.end() || !input.input.valid() ||
      static_cast<size_t>(input.input.value()) >= type->ports.size()) {
    return Wrong(fmt::format("the request brings input {} of cell type {}, which is not there",
                             input.input.value(), input.type.value()));
  }
  Port& port = type->ports[static_cast<size_t>(input.input.value())];
  const TableSpec& table = model.table(port.table);
  if (port.sums || model.type(type->id).definition->carry() == input.input) {
    return Wrong(fmt::format("the request cannot bring {}, which {}", port.name,
                             port.sums ? "sums nodes" : "is carried"));
  }
  if (table.columns.size() != 1 || table.columns[0].type == ElementType::kBf16) {
    return Wrong(
        fmt::format("the request cannot bring {}: its rows have {} columns, expected is "
                    "one of FP32 or INT32",
                    port.name, table.columns.size()));
  }
  if (input.known.unknown && !input.known.Has(*input.known.unknown)) {
    return Wrong(fmt::format("{}: unknown numbers as {}, the vocabulary ends at {}", port.name,
                             *input.known.unknown, input.known.size - 1));
  }
  port.request = true;
  port.element = table.columns[0].type;
  port.width = table.columns[0].width;
  port.known = input.known;
  tensor_names_.push_back(port.name);
  return absl::OkStatus();
}

absl::Status DagUnfolder::FindOutput(const Model& model, const DagSpec& spec) {
  for (size_t t = 0; t < types_.size(); ++t) {
    if (spec.output_type.valid() && types_[t].id != spec.output_type) continue;
    if (spec.output_type.valid()) output_type_ = static_cast<int32_t>(t);
    const CellType& cell = model.type(types_[t].id);
    if (!types_[t].output.valid()) {
      return Wrong(fmt::format("cell type \"{}\" leaves no FP32 or INT32 column \"{}\"", cell.name,
                               spec.output));
    }
    const Column& column = ColumnOf(cell, types_[t].output);
    const WireType wire = column.type == ElementType::kInt32 ? WireType::kInt32 : WireType::kFp32;
    if (output_width_ != 0 && (column.width != output_width_ || wire != output_wire_)) {
      return Wrong(fmt::format(
          "cell type \"{}\" leaves \"{}\" as {} of {}, those before it {} of "
          "{}; name an output_type",
          cell.name, spec.output, Name(wire), column.width, Name(output_wire_), output_width_));
    }
    output_width_ = column.width;
    output_wire_ = wire;
  }
  if (output_width_ > 0) return absl::OkStatus();
  return Wrong(fmt::format("output_type {} is none of the types", spec.output_type.value()));
}

absl::StatusOr<std::unique_ptr<DagUnfolder>> DagUnfolder::Create(const DagSpec& spec,
                                                                 const Model& model) {
  if (spec.types.empty() || spec.types.size() > kMaxTypes) {
    return Wrong(fmt::format("{} types, allowed are 1 to {}", spec.types.size(), kMaxTypes));
  }
  if (spec.max_nodes < 1 || spec.max_nodes > kMaxTensorRows / kMaxEdgesPerNode) {
    return Wrong(fmt::format("at most {} nodes, allowed are 1 to {}", spec.max_nodes,
                             kMaxTensorRows / kMaxEdgesPerNode));
  }
  std::unique_ptr<DagUnfolder> made(new DagUnfolder);
  made->max_nodes_ = spec.max_nodes;
  made->tensor_names_ = {kNodeTypesInput, kEdgesInput};
  for (const CellTypeId id : spec.types) {
    if (absl::Status s = made->AddType(model, spec, id); !s.ok()) return s;
  }
  for (const DagInput& input : spec.inputs) {
    if (absl::Status s = made->AddRequestInput(model, input); !s.ok()) return s;
  }
  if (absl::Status s = made->FindOutput(model, spec); !s.ok()) return s;
  return made;
}

Signature DagUnfolder::MakeSignature() const {
  Signature signature;
  signature.inputs.push_back({kNodeTypesInput, WireType::kInt32, {-1}});
  signature.inputs.push_back({kEdgesInput, WireType::kInt32, {-1, 3}, /*optional=*/true});
  for (const Type& type : types_) {
    for (const Port& port : type.ports) {
      if (!port.request) continue;
      const bool ids = port.element == ElementType::kInt32;
      std::vector<int64_t> dims = {-1};
      if (!ids || port.width > 1) dims.push_back(port.width);
      signature.inputs.push_back({port.name, ids ? WireType::kInt32 : WireType::kFp32,
                                  std::move(dims), /*optional=*/true});
    }
  }
  signature.outputs.push_back({kOutput, output_wire_, {output_width_}});
  signature.outputs.push_back({kNodeOutputs,
                               output_wire_,
                               {-1, output_width_},
                               /*optional=*/false,
                               /*on_request=*/true,
                               /*listed=*/false});
  return signature;
}

}  // namespace cellbatch
