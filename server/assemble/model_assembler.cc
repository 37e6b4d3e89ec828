#include "server/assemble/model_assembler.h"

#include <fmt/format.h>

#include <algorithm>

#include "cells/unfold/unfolder.h"
#include "server/assemble/assembly.h"
#include "server/assemble/place_model.h"

namespace cellbatch {
namespace {

void CheckPriorityLevels(Assembly& a) {
  const uint64_t levels = a.config.priority_levels(), given = a.config.default_priority_level();
  if (levels > static_cast<uint64_t>(kMostPriorityLevels)) {
    a.Problem("priority_levels", fmt::format("priority_levels is {}, allowed are 0 to {}", levels,
                                             kMostPriorityLevels));
    return;
  }
  if (given <= levels && (given > 0 || levels == 0)) return;
  a.Problem("default_priority_level",
            levels == 0
                ? fmt::format("default_priority_level is {} where there are no levels "
                              "(priority_levels is 0)",
                              given)
                : fmt::format("default_priority_level is {}, allowed are 1 to {}", given, levels));
}

// Tasks of no more nodes are no faster split (cells/kernels/README.md, "Tile registers", has the times).
constexpr int32_t kMostNodesNotSplit = 6;

bool HasSmallTasksAlone(const disk::ModelDescription& config) {
  return std::all_of(config.cell_types().begin(), config.cell_types().end(), [](const auto& type) {
    return type.max_batch() > 0 && type.max_batch() <= kMostNodesNotSplit;
  });
}

// AUTO is the faster of FP32 and FP32_SPLIT in the largest tasks that there may be: the second wherever CPUs have what it is
// for, unless no type's are large. Where they have not, and on GPUs, whose FP32 is such a sum already, both are FP32. TF32 is
// what GPUs have, and FP32 elsewhere.
Precision PrecisionOf(const Assembly& a) {
  const bool splits = a.limits.splits_fp32 && a.model.devices.cpu;
  switch (a.config.precision()) {
    case disk::PRECISION_FP32_SPLIT:
      return splits ? Precision::kFp32Split : Precision::kFp32;
    case disk::PRECISION_AUTO:
      return splits && !HasSmallTasksAlone(a.config) ? Precision::kFp32Split : Precision::kFp32;
    case disk::PRECISION_TF32:
      return a.model.devices.gpu ? Precision::kTf32 : Precision::kFp32;
    case disk::PRECISION_BF16:
      return Precision::kBf16;
    case disk::PRECISION_W8:
      return Precision::kW8;
    default:
      return Precision::kFp32;
  }
}

void CheckSettings(Assembly& a) {
  const disk::ModelDescription& config = a.config;
  a.model.devices = PlaceModel(a);
  const int64_t length = config.max_sequence_length();
  if (length < 0 || length > a.limits.max_sequence_length) {
    a.Problem("max_sequence_length",
              fmt::format("max_sequence_length is {}, this server's limit is {}", length,
                          a.limits.max_sequence_length));
  }
  const int64_t nodes = config.max_nodes();
  if (nodes < 0 || nodes > a.limits.max_nodes) {
    a.Problem("max_nodes",
              fmt::format("max_nodes is {}, this server's limit is {}", nodes, a.limits.max_nodes));
  }
  constexpr double kLeastWeight = 1e-6, kMostWeight = 1e6;  // of two, time is divided by each
  const double weight = config.weight();
  if (weight != 0 && !(weight >= kLeastWeight && weight <= kMostWeight)) {
    a.Problem("weight", fmt::format("weight is {}, allowed are {} to {}, and 0 for 1", weight,
                                    kLeastWeight, kMostWeight));
  }
  CheckPriorityLevels(a);
  if (config.cell_types_size() > a.limits.max_cell_types) {
    a.Problem("cell_types", fmt::format("{} cell types, the limit is {}", config.cell_types_size(),
                                        a.limits.max_cell_types));
  }
}

// What is not said is as it was measured to be best (model.proto).
void TakeUnfoldOptions(const disk::ModelDescription& description, Model& model) {
  const disk::UnfoldOptions& config = description.unfold();
  const bool placed = description.has_lattice() && description.granularity() != disk::OPERATOR;
  const bool ghosts =
      config.ghosts() == disk::SWITCH_UNSPECIFIED ? placed : config.ghosts() == disk::ON;
  model.unfold = {.phases = config.phases() == disk::OFF ? 1 : model.unfolder->phases(),
                  .ghosts = ghosts,
                  .level_rows = config.level_rows() == disk::ON};
}

}  // namespace

std::vector<std::string> AssembleModel(const ModelParts& parts, const LoaderLimits& limits,
                                       Model& model) {
  std::vector<std::string> problems;
  TypeMaker types(parts.config, parts.places, parts.find_cell, parts.weights, model, problems);
  Assembly assembly{.config = parts.config,
                    .limits = limits,
                    .model_folder = parts.model_folder,
                    .types = types,
                    .model = model,
                    .places = parts.places};
  CheckSettings(assembly);
  if (parts.weights == nullptr) {  // what can be told without them
    types.CheckRest();
    return problems;
  }
  if (parts.config.weight() > 0) model.weight = parts.config.weight();
  if (parts.config.priority_levels() > 0 && problems.empty()) {
    model.priority_levels = static_cast<int32_t>(parts.config.priority_levels());
    model.default_priority_level = static_cast<int32_t>(parts.config.default_priority_level());
  }
  switch (parts.config.unfolder_case()) {
    case disk::ModelDescription::kChain:
      AssembleChain(assembly);
      break;
    case disk::ModelDescription::kEncoderDecoder:
      AssembleEncoderDecoder(assembly);
      break;
    case disk::ModelDescription::kLattice:
      AssembleLattice(assembly);
      break;
    case disk::ModelDescription::kDag:
      AssembleDag(assembly);
      break;
    case disk::ModelDescription::kTree:
      AssembleTree(assembly);
      break;
    case disk::ModelDescription::kLibrary:
      AssembleLibrary(assembly);
      break;
    case disk::ModelDescription::UNFOLDER_NOT_SET:
      assembly.Problem("no unfolder, such as chain { .. }");
      break;
    default:
      assembly.Problem("this kind of unfolder is not offered yet");
  }
  if (!problems.empty()) return problems;
  TakeUnfoldOptions(parts.config, model);
  model.asks_for_sequences = parts.config.sequences() == disk::ON;
  if (model.asks_for_sequences && model.signature.state.empty()) {
    assembly.Problem(
        "sequences",
        "sequences is ON, and the model has no state that a request could bring (INITIAL_H)");
  }
  model.precision = PrecisionOf(assembly);
  for (CellType& type : model.types) type.precision = model.precision;
  if (absl::Status s = model.Validate(); !s.ok()) problems.emplace_back(s.message());
  return problems;
}

}  // namespace cellbatch
