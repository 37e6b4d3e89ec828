// cellbatch-server --check: every model read and compiled, nothing put on a device.
#include <fmt/format.h>

#include <algorithm>

#include "cells/compile/lower.h"
#include "cells/device/cpu/cpu_limits.h"
#include "server/repository/model_repository.h"

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

void Summarize(const Model& model, CheckedModel& checked) {
  for (const CellType& type : model.types) {
    const auto program = Lower(*type.definition, kCpuLimits);
    if (program.ok()) continue;
    checked.problems.push_back(fmt::format("cell type \"{}\" cannot be compiled: {}", type.name,
                                           std::string(program.status().message())));
  }
  std::vector<std::string> inputs, outputs;
  for (const TensorSpec& t : model.signature.inputs) {
    if (t.listed) inputs.push_back(ShapeOf(t));
  }
  for (const TensorSpec& t : model.signature.outputs) {
    if (!t.on_request) outputs.push_back(ShapeOf(t));
  }
  checked.summary =
      fmt::format("{} cell types, {} parameters, {} -> {}", model.types.size(), Parameters(model),
                  fmt::join(inputs, ", "), fmt::join(outputs, ", "));
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
    const absl::StatusOr<std::vector<int64_t>> versions = ModelVersions(root + "/" + name);
    if (versions.ok() && !versions->empty()) checked.version = versions->back();
    const auto model = ReadModel(root, name, ModelId(0), limits);
    const absl::Status room = CheckRoom(name, good, max_models);
    if (model.ok() && !room.ok()) {
      checked.problems.emplace_back(room.message());
    } else if (model.ok()) {
      Summarize(*model->model, checked);
      if (model->policy.kind != PolicyKind::kCellular) {
        checked.summary += fmt::format(", policy {}", Name(model->policy.kind));
      }
      if (model->join.whole_graphs > 0) {
        checked.summary += fmt::format(", join {}", Name(model->join));
      }
      good += checked.problems.empty() ? 1 : 0;
    } else {
      const absl::string_view text = model.status().message();
      checked.problems = Lines({text.data(), text.size()});
    }
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
    made.report +=
        fmt::format("model \"{}\" version {}: OK, {}\n", model.name, model.version, model.summary);
  }
  made.report += fmt::format("{} models: {} OK, {} with {} problems\n", models.size(), good,
                             models.size() - good, problems);
  return made;
}

}  // namespace cellbatch
