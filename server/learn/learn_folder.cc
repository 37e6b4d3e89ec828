#include "server/learn/learn_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "scheduler/policy/fsm_state.h"
#include "server/repository/model_loader.h"

namespace cellbatch {

namespace fs = std::filesystem;

namespace {

// What others write to `path` at this moment, and what who died left, lies under other names.
constexpr int kMostBeside = 1000;

std::error_code LastError() { return std::make_error_code(std::errc(errno)); }

// The first of its kind that is not there; `name` becomes its own.
std::FILE* OpenBeside(const std::string& path, std::string& name) {
  for (int i = 0; i < kMostBeside; ++i) {
    name = fmt::format("{}.new{}", path, i);
    std::FILE* const file = std::fopen(name.c_str(), "wbx");
    if (file != nullptr || errno != EEXIST) return file;
  }
  return nullptr;
}

std::error_code WriteAndClose(const std::string& text, std::FILE* file) {
  std::error_code error;
  if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) error = LastError();
  if (std::fclose(file) != 0 && !error) error = LastError();
  return error;
}

std::error_code WriteAside(const std::string& path, const std::string& text) {
  std::string aside;
  std::FILE* const file = OpenBeside(path, aside);
  if (file == nullptr) return LastError();
  std::error_code error = WriteAndClose(text, file);
  if (!error) fs::rename(aside, path, error);
  std::error_code gone;
  if (error) fs::remove(aside, gone);
  return error;
}

// What is no file, as a terminal or /dev/null, is not to become one, and a link not to be replaced by what it leads to.
std::error_code Write(const std::string& path, const std::string& text) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    return file == nullptr ? LastError() : WriteAndClose(text, file);
  }
  if (!fs::is_symlink(fs::symlink_status(path, error))) return WriteAside(path, text);
  const fs::path to = fs::weakly_canonical(path, error);
  return error ? error : WriteAside(to.string(), text);
}

}  // namespace

absl::Status WriteWhole(const std::string& path, const std::string& text) {
  const std::error_code error = Write(path, text);
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
