#include "server/learn/learn_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "cells/whole_file.h"
#include "scheduler/policy/fsm_state.h"
#include "server/policy/policy_codec.h"
#include "server/repository/model_loader.h"

namespace cellbatch {

namespace {

std::error_code WriteInPlace(const std::string& path, const std::string& text) {
  const auto last_error = [] { return std::make_error_code(std::errc(errno)); };
  std::error_code error;
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return last_error();
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) error = last_error();
  if (std::fclose(file) != 0 && !error) error = last_error();
  return error;
}

}  // namespace

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  // A terminal, a pipe, /dev/null (--curve /dev/stderr) is not to become a file.
  const bool in_place = fs::exists(there) && !fs::is_regular_file(there);
  error = in_place ? WriteInPlace(path, text) : WriteWholeFile(path, text);
  if (!error) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} cannot be written: {}", path, error.message()));
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
  // What is found out before minutes of learning need not be told after them.
  if (absl::Status s = CheckPolicyFileDecides(folder, PolicyKind::kFsm, limits); !s.ok()) return s;
  return LearnFolder{*std::move(model), folder, fmt::format("{}/{}", folder, version)};
}

absl::Status CheckServes(const LearnFolder& folder, const LearnedOrder& learned) {
  const auto read = ParsePolicy(learned.text, learned.file, *folder.model);
  if (!read.ok()) return read.status();
  return CheckPolicyFileDecides(folder.path, read->kind, {});
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
