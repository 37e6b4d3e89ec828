#include "server/repository/model_folders.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <utility>

#include "absl/strings/str_split.h"
#include "cells/device/cpu/process_limits.h"
#include "server/requests/client_text.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

// The root itself (".") and what is hidden are no models, nor is what every mounted disk has.
bool MayBeModelName(std::string_view name) {
  return !name.starts_with('.') && name != "lost+found";
}

// What the system cannot tell of (a root that may be listed and not searched, a disk that fails) is not gone: it is read as
// a folder, and its reader says why it cannot be.
bool IsFolder(bool told, const std::error_code& error) {
  const bool gone = error == std::errc::no_such_file_or_directory ||
                    error == std::errc::not_a_directory || error == std::errc::filename_too_long;
  return told || (error && !gone);
}

// The lines of several texts, each once, in order.
std::string Merged(const std::vector<std::string>& texts) {
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    for (std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
      if (std::ranges::count(lines, line) == 0) lines.push_back(std::move(line));
    }
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

// Which folders those are, whatever they are called by: the model's, then its versions'.
using Places = std::vector<std::pair<dev_t, ino_t>>;

Places PlacesOf(const std::string& folder, const std::vector<int64_t>& versions) {
  Places places;
  const auto add = [&](const std::string& path) {
    struct stat found = {};
    if (stat(path.c_str(), &found) != 0) found = {};
    places.emplace_back(found.st_dev, found.st_ino);
  };
  add(folder);
  for (const int64_t version : versions) add(fmt::format("{}/{}", folder, version));
  return places;
}

// Each file is found by its path: some of them may be of the one folder then, and some of the other.
absl::Status Replaced(const std::string& folder) {
  return absl::InvalidArgumentError(fmt::format(
      "{}: was moved away or replaced while it was read; load the model again", folder));
}

absl::StatusOr<ModelVersion> Read(const std::string& folder, const std::string& name,
                                  int64_t version, ModelId id, const LoaderLimits& limits) {
  try {
    return LoadVersion(folder, name, version, id, limits);
  } catch (const std::bad_alloc& why) {
    return NoMemoryFor(version, why);
  }
}

}  // namespace

bool IsModelFolder(const std::string& root, std::string_view name) {
  std::error_code error;
  const bool folder = fs::is_directory(fmt::format("{}/{}", root, name), error);
  return MayBeModelName(name) && IsFolder(folder, error);
}

absl::StatusOr<std::vector<std::string>> ListModels(const std::string& root) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code of_entry;
    const bool folder = it->is_directory(of_entry);  // the root itself may have said
    if (MayBeModelName(name) && IsFolder(folder, of_entry)) names.push_back(std::move(name));
  }
  if (error) {
    return absl::InvalidArgumentError(
        fmt::format("model repository {}: {}", root, error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<std::string>> ModelFolders(const std::string& root) {
  absl::StatusOr<std::vector<std::string>> names = ListModels(root);
  if (!names.ok() || !names->empty()) return names;
  return absl::InvalidArgumentError(
      fmt::format("model repository {}: there is no model folder in it", root));
}

absl::Status CheckRoom(const std::string& name, size_t versions, int64_t served_beside,
                       int64_t max_models) {
  if (served_beside + static_cast<int64_t>(versions) <= max_models) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{} models are served, the most is {} (--max-models): there is no room for {}{}",
      served_beside, max_models,
      versions == 1 ? std::string() : fmt::format("{} versions of ", versions), Quoted(name)));
}

absl::Status NoMemoryFor(int64_t version, const std::bad_alloc& why) {
  const auto* const known = dynamic_cast<const TooLittleMemory*>(&why);
  return absl::ResourceExhaustedError(fmt::format("there is no memory left for version {}{}{}",
                                                  version, known == nullptr ? "" : ": ",
                                                  known == nullptr ? "" : known->what()));
}

absl::StatusOr<std::vector<int64_t>> FindVersions(const std::string& root, const std::string& name,
                                                  const LoaderLimits& limits) {
  if (absl::Status s = CheckModelName(name); !s.ok()) return s;
  const std::string folder = root + "/" + name;
  if (!IsModelFolder(root, name)) {
    return absl::NotFoundError(fmt::format("there is no model folder {}", folder));
  }
  return VersionsToServe(folder, limits);
}

absl::StatusOr<std::vector<ModelVersion>> ReadVersions(const std::string& root,
                                                       const std::string& name,
                                                       const std::vector<int64_t>& versions,
                                                       const std::vector<ModelId>& ids,
                                                       const LoaderLimits& limits) {
  const std::string folder = root + "/" + name;
  std::vector<ModelVersion> read;
  std::vector<std::string> problems;
  absl::StatusCode code = absl::StatusCode::kOk;
  const auto problem = [&](const absl::Status& status) {
    if (problems.empty()) code = status.code();
    problems.emplace_back(status.message());
  };
  const Places before = PlacesOf(folder, versions);
  for (size_t i = 0; i < versions.size(); ++i) {
    auto one = Read(folder, name, versions[i], ids[i], limits);
    if (one.ok()) {
      read.push_back(*std::move(one));
    } else {
      problem(one.status());
    }
  }
  if (PlacesOf(folder, versions) != before) problem(Replaced(folder));
  if (problems.empty()) return read;
  return absl::Status(code, Merged(problems));
}

}  // namespace cellbatch
