// What a repository's folder holds: which models, which of their versions are to be served, and these, read. Nothing is
// kept, nothing served; any thread, and all of it touches the disk.
#ifndef CELLBATCH_SERVER_REPOSITORY_MODEL_FOLDERS_H_
#define CELLBATCH_SERVER_REPOSITORY_MODEL_FOLDERS_H_

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cells/model.h"
#include "server/repository/model_loader.h"

namespace cellbatch {

// The model folders of a root, sorted: all but hidden ones. INVALID_ARGUMENT: unreadable.
absl::StatusOr<std::vector<std::string>> ListModels(const std::string& root);
// The same; INVALID_ARGUMENT where there is none, too.
absl::StatusOr<std::vector<std::string>> ModelFolders(const std::string& root);
// RESOURCE_EXHAUSTED: so many versions of a model would be too many.
absl::Status CheckRoom(const std::string& name, size_t versions, int64_t served_beside,
                       int64_t max_models);
// RESOURCE_EXHAUSTED: there is no room for what a load needs, as where a limit keeps the process from mapping more; how much was
// wanted, if that was found out before it was taken (RequireMemory).
absl::Status NoMemoryFor(int64_t version, const std::bad_alloc& why);
// Whether `name` is one of them.
bool IsModelFolder(const std::string& root, std::string_view name);
// The versions of a model folder that are to be served (VersionsToServe). NOT_FOUND: there is no such folder.
absl::StatusOr<std::vector<int64_t>> FindVersions(const std::string& root, const std::string& name,
                                                  const LoaderLimits& limits);
// Those, read and checked, all or none; `ids`: one each. A problem that several have is listed once. One that has no room in
// memory is one more (RESOURCE_EXHAUSTED), and so is a folder that another one took the place of meanwhile.
absl::StatusOr<std::vector<ModelVersion>> ReadVersions(const std::string& root,
                                                       const std::string& name,
                                                       const std::vector<int64_t>& versions,
                                                       const std::vector<ModelId>& ids,
                                                       const LoaderLimits& limits);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_MODEL_FOLDERS_H_
