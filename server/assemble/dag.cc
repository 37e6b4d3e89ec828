// Graphs that requests draw (cells/unfold/dag_unfolder.h).
#include <fmt/format.h>

#include <algorithm>

#include "cells/unfold/dag_unfolder.h"
#include "cells/unfold/type_check.h"
#include "server/assemble/assembly.h"
#include "server/assemble/open_types.h"
#include "server/names/nearest_name.h"

namespace cellbatch {
namespace {

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
  const std::optional<OpenTypes> types = MakeOpenTypes(a, {.unfolder = "dag",
                                                           .types = dag.types(),
                                                           .from_request = dag.from_request(),
                                                           .rows_of = dag.rows_of(),
                                                           .phases = dag.phases()});
  if (!types) return;
  if (!dag.output_type().empty() &&
      std::find(dag.types().begin(), dag.types().end(), dag.output_type()) == dag.types().end()) {
    a.Problem(
        fmt::format("dag: output_type \"{}\" is none of its types{}", dag.output_type(),
                    MeantOrThere(dag.output_type(), {dag.types().begin(), dag.types().end()})));
    return;
  }
  DagSpec spec;
  spec.types = types->types;
  spec.inputs = types->inputs;
  spec.phases = types->phases;
  spec.max_nodes = a.MaxNodes();
  FindOutput(a, spec);
  auto unfolder = DagUnfolder::Create(spec, a.model);
  if (!unfolder.ok()) {
    a.Problem(std::string(unfolder.status().message()));
    return;
  }
  a.model.signature = (*unfolder)->MakeSignature();
  a.model.unfolder = *std::move(unfolder);
  a.ListOutputs();
}

}  // namespace cellbatch
