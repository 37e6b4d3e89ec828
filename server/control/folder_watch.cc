#include "server/control/folder_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "server/repository/model_folders.h"
#include "server/repository/model_loader.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr char kPolicy[] = "policy.textproto";

struct Lines {
  std::vector<std::string> files, beside;
  bool all_seen = true;
};

void AddFile(const fs::path& file, const std::string& name, Lines& lines) {
  struct stat found = {};
  if (stat(file.c_str(), &found) != 0) return;  // gone meanwhile
  const bool policy = file.filename() == kPolicy;
  (policy ? lines.beside : lines.files)
      .push_back(fmt::format("{} {} {}.{:09} {}\n", name, found.st_size, found.st_mtim.tv_sec,
                             found.st_mtim.tv_nsec, found.st_ino));
  lines.beside.push_back(
      fmt::format("{} {:o} {} {}\n", name, found.st_mode, found.st_uid, found.st_gid));
}

// Of the folder itself, or of all that is in it. `left`: entries that may still be looked at.
void AddFiles(const fs::path& folder, bool all, int& left, Lines& lines) {
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (left == 0) return;
    --left;
    std::error_code ignored;
    if (!all || it.depth() + 1 >= kMostWatchedDepth) it.disable_recursion_pending();
    if (!it->is_regular_file(ignored)) continue;
    AddFile(it->path(), it->path().lexically_relative(folder.parent_path()).string(), lines);
  }
  if (error == std::errc::too_many_files_open) lines.all_seen = false;
  if (!error || error == std::errc::no_such_file_or_directory) return;
  lines.files.push_back(fmt::format("{}: {}\n", folder.filename().string(), error.message()));
}

std::string Joined(std::vector<std::string>& lines) {
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace

FolderLook LookOf(const std::string& model_folder) {
  Lines lines;
  int left = kMostWatchedEntries;
  AddFiles(model_folder, /*all=*/false, left, lines);
  auto versions = VersionsToServe(model_folder, LoaderLimits());
  if (!versions.ok()) versions = ModelVersions(model_folder);
  // Gone meanwhile: the next look misses it.
  for (const int64_t version : versions.value_or(std::vector<int64_t>())) {
    AddFiles(fmt::format("{}/{}", model_folder, version), /*all=*/true, left, lines);
  }
  const bool seen = lines.all_seen && !absl::IsResourceExhausted(versions.status());
  return {.files = Joined(lines.files), .beside = Joined(lines.beside), .seen = seen};
}

absl::StatusOr<std::vector<std::string>> FolderWatch::Begin() {
  auto names = ListModels(root_);
  if (!names.ok()) return names;
  for (const std::string& name : *names) {
    const FolderLook look = LookOf(root_ + "/" + name);
    seen_[name] = {.last = look, .told = look};
  }
  return names;
}

absl::StatusOr<std::vector<FolderNews>> FolderWatch::Look() {
  const auto names = ListModels(root_);
  if (!names.ok()) return names.status();
  std::vector<FolderNews> news;
  for (const std::string& name : *names) {
    FolderLook look = LookOf(root_ + "/" + name);
    Seen& seen = seen_[name];
    seen.missed = false;
    if (!look.seen) continue;
    const bool still = look == seen.last;
    seen.last = std::move(look);
    const bool changed =
        seen.last.files != seen.told.files || (seen.failed && seen.last.beside != seen.told.beside);
    if (!still || !changed) continue;
    seen.told = seen.last;
    seen.failed = false;
    news.push_back({.name = name});
  }
  const std::set<std::string> there(names->begin(), names->end());
  for (auto it = seen_.begin(); it != seen_.end();) {
    const bool missed = !there.contains(it->first);
    if (missed && std::exchange(it->second.missed, true)) {
      news.push_back({.name = it->first, .gone = true});
      it = seen_.erase(it);
    } else {
      ++it;
    }
  }
  return news;
}

void FolderWatch::TellAgain(const std::string& name) {
  const auto seen = seen_.find(name);
  if (seen != seen_.end()) seen->second.told.files.clear();
}

void FolderWatch::Failed(const std::string& name) {
  const auto seen = seen_.find(name);
  if (seen != seen_.end()) seen->second.failed = true;
}

}  // namespace cellbatch
