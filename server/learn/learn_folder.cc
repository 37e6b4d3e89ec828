#include "server/learn/learn_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "scheduler/policy/fsm_state.h"
#include "server/repository/model_loader.h"

namespace cellbatch {

namespace fs = std::filesystem;

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::string fresh = path + ".new";
  std::ofstream out(fresh, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) {
    fs::rename(fresh, path, error);
  } else {
    error = std::make_error_code(std::errc(errno));  // of open or write
  }
  if (!out || error) {
    std::error_code gone;
    fs::remove(fresh, gone);
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be written: {}", path, error.message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<LearnFolder> OpenLearnFolder(const LearnOrderOptions& options) {
  const std::string folder = options.repository + "/" + options.model;
  int64_t version = options.version;
  if (version == 0) {
    const absl::StatusOr<std::vector<int64_t>> versions = ModelVersions(folder);
    if (!versions.ok()) return versions.status();
    if (versions->empty()) {
      return absl::InvalidArgumentError(fmt::format("{} has no version", folder));
    }
    version = versions->back();
  }
  LoaderLimits limits;
  limits.unfolder_libraries = options.unfolder_libraries;
  limits.policies = false;  // what is there may be stale: it is what is learned anew
  auto model = LoadModel(folder, options.model, version, ModelId(0), limits);
  if (!model.ok()) return model.status();
  if ((*model)->types.size() < 2) {
    return absl::FailedPreconditionError(
        fmt::format("{} has one cell type: there is no order to learn", options.model));
  }
  if ((*model)->types.size() > static_cast<size_t>(StateEncoding::kMostTypes)) {
    return absl::FailedPreconditionError(
        fmt::format("{} has {} cell types, a state has room for {}", options.model,
                    (*model)->types.size(), StateEncoding::kMostTypes));
  }
  return LearnFolder{*std::move(model), fmt::format("{}/{}", folder, version)};
}

std::vector<std::string_view> LearnOutputs(const LearnOrderOptions& options, const Model& model) {
  std::vector<std::string_view> outputs(options.outputs.begin(), options.outputs.end());
  if (!outputs.empty()) return outputs;
  for (const TensorSpec& output : model.signature.outputs) {
    if (output.name == "OUTPUT" || output.name == "NODE_OUTPUTS") outputs.push_back(output.name);
  }
  return outputs;
}

}  // namespace cellbatch
