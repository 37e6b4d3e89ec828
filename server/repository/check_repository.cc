#include "server/repository/check_repository.h"

#include <fmt/format.h>

#include <algorithm>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_limits.h"
#include "server/policy/policy_codec.h"
#include "server/repository/model_folders.h"

namespace cellbatch {
namespace {

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::string ShapeOf(const TensorSpec& tensor) {
  return fmt::format("{} [{}]", tensor.name, fmt::join(tensor.dims, ", "));
}

// Numbers in weights; what several types share is counted once.
int64_t Parameters(const Model& model) {
  std::vector<std::pair<const float*, int64_t>> weights;
  for (const CellType& type : model.types) {
    for (const Weight& w : type.weights) weights.emplace_back(w.data.get(), w.shape.size());
  }
  std::sort(weights.begin(), weights.end());
  weights.erase(std::unique(weights.begin(), weights.end()), weights.end());
  int64_t count = 0;
  for (const auto& [data, size] : weights) count += size;
  return count;
}

absl::StatusOr<std::vector<ModelVersion>> ReadToCheck(const std::string& root,
                                                      const std::string& name,
                                                      const LoaderLimits& limits,
                                                      std::vector<int64_t>& versions) {
  absl::StatusOr<std::vector<int64_t>> found = FindVersions(root, name, limits);
  if (!found.ok()) return found.status();
  versions = *std::move(found);
  return ReadVersions(root, name, versions, std::vector(versions.size(), ModelId(0)), limits);
}

void CheckTypes(const Model& model, CheckedModel& checked) {
  for (const CellType& type : model.types) {
    const auto program = Lower(*type.definition, kCpuLimits);
    if (program.ok()) continue;
    checked.problems.push_back(fmt::format("cell type \"{}\" cannot be compiled: {}", type.name,
                                           std::string(program.status().message())));
  }
}

// What the highest version is: they have their configuration in common.
void Summarize(const std::vector<ModelVersion>& versions, const LoaderLimits& limits,
               CheckedModel& checked) {
  for (const ModelVersion& version : versions) CheckTypes(*version.model, checked);
  const auto& [highest, policy, join] = versions.back();
  const Model& model = *highest;
  std::vector<std::string> inputs, outputs;
  for (const TensorSpec& t : model.signature.inputs) {
    if (t.listed) inputs.push_back(ShapeOf(t));
  }
  for (const TensorSpec& t : model.signature.outputs) {
    if (!t.on_request) outputs.push_back(ShapeOf(t));
  }
  checked.summary = fmt::format("{} cell type{}, {} parameters, {} -> {}", model.types.size(),
                                model.types.size() == 1 ? "" : "s", Parameters(model),
                                fmt::join(inputs, ", "), fmt::join(outputs, ", "));
  if (policy.kind != PolicyKind::kCellular) {
    checked.summary += fmt::format(", policy {}", Name(policy.kind));
  } else if (policy.about.starts_with(kInPlaceOf)) {
    checked.summary += fmt::format(", policy {} {}", Name(policy.kind), policy.about);
  }
  if (join.whole_graphs > 0) checked.summary += fmt::format(", join {}", Name(join));
  if (limits.devices.has_value() && limits.devices->both()) {
    checked.summary += fmt::format(", lives on {}", Name(model.devices));
  }
}

}  // namespace

absl::StatusOr<std::vector<CheckedModel>> CheckRepository(const std::string& root,
                                                          const LoaderLimits& limits,
                                                          int64_t max_models) {
  const absl::StatusOr<std::vector<std::string>> names = ModelFolders(root);
  if (!names.ok()) return names.status();
  std::vector<CheckedModel> models;
  int64_t good = 0;
  for (const std::string& name : *names) {
    CheckedModel& checked = models.emplace_back();
    checked.name = name;
    const auto read = ReadToCheck(root, name, limits, checked.versions);
    if (!read.ok()) {
      const absl::string_view text = read.status().message();
      checked.problems = Lines({text.data(), text.size()});
      continue;
    }
    const absl::Status room = CheckRoom(name, read->size(), good, max_models);
    if (room.ok()) {
      Summarize(*read, limits, checked);
    } else {
      checked.problems.emplace_back(room.message());
    }
    if (checked.problems.empty()) good += static_cast<int64_t>(read->size());
  }
  return models;
}

CheckReport DescribeCheck(const std::vector<CheckedModel>& models) {
  CheckReport made;
  size_t good = 0, problems = 0;
  for (const CheckedModel& model : models) {
    for (const std::string& problem : model.problems) {
      made.problems += fmt::format("model \"{}\": {}\n", model.name, problem);
    }
    problems += model.problems.size();
    if (!model.problems.empty()) continue;
    ++good;
    made.report += fmt::format("model \"{}\" version{} {}: OK, {}\n", model.name,
                               model.versions.size() == 1 ? "" : "s",
                               fmt::join(model.versions, ", "), model.summary);
  }
  made.report += fmt::format("{} models: {} OK, {} with {} problems\n", models.size(), good,
                             models.size() - good, problems);
  return made;
}

}  // namespace cellbatch
