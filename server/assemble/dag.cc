// Graphs that requests draw (cells/unfold/dag_unfolder.h).
#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "cells/unfold/dag_unfolder.h"
#include "cells/unfold/type_check.h"
#include "server/assemble/assembly.h"

namespace cellbatch {
namespace {

ElementType ElementOf(const disk::CellColumn& column) {
  return column.type() == disk::INT32 ? ElementType::kInt32 : ElementType::kFp32;
}

// Finds where the inputs of one type after the other come from, and makes the types.
class DagTypes {
 public:
  explicit DagTypes(Assembly& assembly) : a_(assembly) {}

  // False: one is broken.
  bool Add(const std::string& name) {
    const absl::StatusOr<CellText> text = a_.types.TextOf(name);
    TypeRole role{.what = "dag: types", .inputs = {}, .others = {}};
    std::vector<int> from_request;
    // A text that cannot be read is a problem that Add tells.
    for (int i = 0; text.ok() && i < text->message.inputs_size(); ++i) {
      const disk::CellInput& input = text->message.inputs(i);
      const InputSource source = SourceOf(name, text->message, input);
      if (source.kind == InputSource::Kind::kRequest) from_request.push_back(i);
      role.inputs.emplace_back(input.name(), source);
    }
    const CellTypeId id = a_.types.Add(name, role);
    if (!id.valid()) return false;
    spec.types.push_back(id);
    for (const int i : from_request) spec.inputs.push_back({id, InputId(i), {}});
    return true;
  }

  // Names of from_request that no type has.
  std::vector<std::string> Unknown() const {
    std::vector<std::string> unknown;
    for (const std::string& name : a_.config.dag().from_request()) {
      if (std::find(tensors_.begin(), tensors_.end(), name) == tensors_.end()) {
        unknown.push_back(name);
      }
    }
    return unknown;
  }

  DagSpec spec;

 private:
  InputSource SourceOf(const std::string& type, const disk::CellDefinition& cell,
                       const disk::CellInput& input) {
    const std::string tensor = fmt::format("{}.{}", type, input.name());
    const auto& named = a_.config.dag().from_request();
    if (std::find(named.begin(), named.end(), tensor) == named.end()) {
      if (input.name() == cell.carry() || Leaves(cell, input)) return InputSource::Own();
      for (const CellTypeId made : spec.types) {
        if (Leaves(a_.model.type(made), input)) return InputSource::Of(a_.model.type(made).out);
      }
    }
    tensors_.push_back(tensor);
    return InputSource::Request(tensors_.back().c_str(), input.columns_size() == 0
                                                             ? ElementType::kFp32
                                                             : ElementOf(input.columns(0)));
  }
  // By name alone: what sizes come to is not known before a type is made.
  static bool Leaves(const disk::CellDefinition& cell, const disk::CellInput& input) {
    return std::all_of(input.columns().begin(), input.columns().end(), [&](const auto& column) {
      return std::any_of(cell.outputs().begin(), cell.outputs().end(),
                         [&](const auto& output) { return output.column() == column.name(); });
    });
  }
  static bool Leaves(const CellType& type, const disk::CellInput& input) {
    return std::all_of(input.columns().begin(), input.columns().end(), [&](const auto& column) {
      return ColumnNamed(type, column.name(), ElementOf(column)).valid();
    });
  }

  Assembly& a_;
  std::deque<std::string> tensors_;  // that requests bring; their addresses stay
};

// The model's vocabulary, for every number of the request that a cell looks up.
bool FindIds(Assembly& a, DagSpec& spec) {
  bool all = true;
  for (DagInput& input : spec.inputs) {
    const CellType& type = a.model.type(input.type);
    const TableId table = type.in[static_cast<size_t>(input.input.value())];
    if (a.types.LookupRows(table) == 0) continue;
    const std::string& name =
        type.definition->inputs()[static_cast<size_t>(input.input.value())].name;
    const auto known =
        a.KnownIds(a.config.vocabulary(), table, fmt::format("{}.{}", type.name, name));
    all = known.has_value() && all;
    if (known) input.known = *known;
  }
  return all;
}

void FindOutput(const Assembly& a, DagSpec& spec) {
  const disk::DagUnfolder& dag = a.config.dag();
  CellTypeId asked = spec.types.back();
  for (const CellTypeId id : spec.types) {
    if (a.model.type(id).name != dag.output_type()) continue;
    spec.output_type = asked = id;
  }
  spec.output = dag.output();
  if (!spec.output.empty()) return;
  spec.output = std::string(ColumnNamed(a.model.type(asked), "y").valid() ? "y" : "h");
}

}  // namespace

void AssembleDag(Assembly& a) {
  const disk::DagUnfolder& dag = a.config.dag();
  if (a.config.max_sequence_length() != 0) {
    a.Problem("max_sequence_length",
              "max_sequence_length is for sequences; graphs are bounded by max_nodes");
  }
  DagTypes types(a);
  bool all = true;
  for (const std::string& name : dag.types()) all = all && types.Add(name);
  if (!a.Finish(all)) return;
  for (const std::string& name : types.Unknown()) {
    a.Problem(fmt::format("dag: from_request names \"{}\", no type has such an input", name));
  }
  if (dag.types().empty()) {
    a.Problem("dag: no types");
    return;
  }
  if (!dag.output_type().empty() &&
      std::find(dag.types().begin(), dag.types().end(), dag.output_type()) == dag.types().end()) {
    a.Problem(fmt::format("dag: output_type \"{}\" is none of its types", dag.output_type()));
    return;
  }
  if (!FindIds(a, types.spec)) return;
  FindOutput(a, types.spec);
  types.spec.max_nodes = a.MaxNodes();
  auto unfolder = DagUnfolder::Create(types.spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->MakeSignature();
  a.model.unfolder = *std::move(unfolder);
  a.ListOutputs();
}

}  // namespace cellbatch
