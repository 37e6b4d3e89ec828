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

void AddFile(const fs::path& file, const std::string& name, std::vector<std::string>& lines) {
  struct stat found = {};
  if (stat(file.c_str(), &found) != 0) return;  // gone meanwhile
  lines.push_back(fmt::format("{} {} {}.{:09} {}\n", name, found.st_size, found.st_mtim.tv_sec,
                              found.st_mtim.tv_nsec, found.st_ino));
}

// Of the folder itself, or of all that is in it. `left`: entries that may still be looked at.
void AddFiles(const fs::path& folder, bool all, int& left, std::vector<std::string>& lines) {
  std::error_code error;
  fs::recursive_directory_iterator it(folder, fs::directory_options::follow_directory_symlink,
                                      error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    if (left == 0) return;
    --left;
    std::error_code ignored;
    if (!all || it.depth() + 1 >= kMostWatchedDepth) it.disable_recursion_pending();
    if (!it->is_regular_file(ignored) || it->path().filename() == kPolicy) continue;
    AddFile(it->path(), it->path().lexically_relative(folder.parent_path()).string(), lines);
  }
}

}  // namespace

std::string LookOf(const std::string& model_folder) {
  std::vector<std::string> lines;
  int left = kMostWatchedEntries;
  AddFiles(model_folder, /*all=*/false, left, lines);
  auto versions = VersionsToServe(model_folder, LoaderLimits());
  if (!versions.ok()) versions = ModelVersions(model_folder);
  // Gone meanwhile: the next look misses it.
  for (const int64_t version : versions.value_or(std::vector<int64_t>())) {
    AddFiles(fmt::format("{}/{}", model_folder, version), /*all=*/true, left, lines);
  }
  std::sort(lines.begin(), lines.end());
  return fmt::format("{}", fmt::join(lines, ""));
}

void FolderWatch::Begin() {
  const auto names = ListModels(root_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    const std::string look = LookOf(root_ + "/" + name);
    seen_[name] = {.last = look, .told = look};
  }
}

absl::StatusOr<std::vector<FolderNews>> FolderWatch::Look() {
  const auto names = ListModels(root_);
  if (!names.ok()) return names.status();
  std::vector<FolderNews> news;
  for (const std::string& name : *names) {
    std::string look = LookOf(root_ + "/" + name);
    Seen& seen = seen_[name];
    seen.missed = false;
    const bool still = look == seen.last;
    seen.last = std::move(look);
    if (!still || seen.last == seen.told) continue;
    seen.told = seen.last;
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
  if (seen != seen_.end()) seen->second.told.clear();
}

}  // namespace cellbatch
