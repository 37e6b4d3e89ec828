// What a model's cells must look like for graphs, checked once; requests are then unfolded without
// asking.
#include <fmt/format.h>

#include <utility>

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

absl::Status DagUnfolder::AddTypes(const Model& model, const DagSpec& spec) {
  std::vector<NodeType> types;
  for (const CellTypeId id : spec.types) {
    absl::StatusOr<NodeType> type = MakeNodeType(model, id);
    if (!type.ok()) return type.status();
    types.push_back(*std::move(type));
  }
  for (const BroughtInput& input : spec.inputs) {
    if (absl::Status s = MarkBrought(model, input, absl::MakeSpan(types)); !s.ok()) return s;
  }
  const absl::StatusOr<int32_t> phases = SetPhases(spec.phases, absl::MakeSpan(types));
  if (!phases.ok()) return Wrong(std::string(phases.status().message()));
  phases_ = *phases;
  for (NodeType& type : types) {
    const CellType& cell = model.type(type.id);
    ColumnId output = ColumnNamed(cell, spec.output);
    if (!output.valid()) output = ColumnNamed(cell, spec.output, ElementType::kInt32);
    for (const Port& port : type.ports) {
      if (port.brought) tensor_names_.push_back(port.name);
    }
    types_.push_back({{std::move(type)}, output});
  }
  return absl::OkStatus();
}

absl::Status DagUnfolder::FindOutput(const Model& model, const DagSpec& spec) {
  for (size_t t = 0; t < types_.size(); ++t) {
    if (spec.output_type.valid() && types_[t].id != spec.output_type) continue;
    if (spec.output_type.valid()) output_type_ = static_cast<int32_t>(t);
    const CellType& cell = model.type(types_[t].id);
    if (!types_[t].output.valid()) {
      return Wrong(fmt::format("cell type \"{}\" leaves no FP32 or INT32 column \"{}\", but {}{}",
                               cell.name, spec.output, ColumnsText(cell.definition->columns()),
                               spec.output_type.valid()
                                   ? "; output names one of them"
                                   : "; output_type names the type whose nodes are the outputs"));
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
  if (absl::Status s = made->AddTypes(model, spec); !s.ok()) return s;
  if (absl::Status s = made->FindOutput(model, spec); !s.ok()) return s;
  return made;
}

Signature DagUnfolder::MakeSignature() const {
  Signature signature;
  signature.inputs.push_back({kNodeTypesInput, WireType::kInt32, {-1}});
  const auto take = [&](const std::string& name, WireType type, std::vector<int64_t> dims) {
    signature.inputs.push_back({.name = name,
                                .type = type,
                                .dims = std::move(dims),
                                .optional = true,
                                .may_be_empty = true});
  };
  take(kEdgesInput, WireType::kInt32, {-1, 3});
  for (const Type& type : types_) {
    for (const Port& port : type.ports) {
      if (!port.brought) continue;
      const bool ids = port.ids();
      std::vector<int64_t> dims = {-1};
      if (!ids || port.width > 1) dims.push_back(port.width);
      take(port.name, ids ? WireType::kInt32 : WireType::kFp32, std::move(dims));
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

RequestDescription DagUnfolder::Describe() const {
  RequestDescription described;
  described.max_nodes = max_nodes_;
  described.output_type = output_type_;
  for (const Type& type : types_) {
    NodeTypeDescription& node = described.node_types.emplace_back();
    node.name = type.name;
    for (const Port& port : type.ports) {
      node.inputs.push_back({.name = port.name, .brought = port.brought, .sums = port.sums});
      if (port.brought && port.ids()) {
        described.inputs.push_back({.name = port.name, .num_ids = port.known.size});
      }
      for (size_t from = 0; from < types_.size() && !port.brought; ++from) {
        if (types_[from].out != port.table) continue;
        node.inputs.back().reads.push_back(static_cast<int32_t>(from));
      }
    }
  }
  return described;
}

}  // namespace cellbatch
