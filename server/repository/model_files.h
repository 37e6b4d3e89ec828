// The files of a model's folder. Nothing outside of it is read, whatever a symbolic link in it says: who may write a folder
// could otherwise have any file of the server's told to whoever asks (a vocabulary's words are in answers, the lines of
// other files in errors). Links that stay inside are followed, as Kubernetes makes them (..data); that the folder itself
// is one, too, is the business of whoever owns the repository. Any thread.
#ifndef CELLBATCH_SERVER_REPOSITORY_MODEL_FILES_H_
#define CELLBATCH_SERVER_REPOSITORY_MODEL_FILES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cellbatch {

// The path of `file` of that folder with all links followed. NOT_FOUND where nothing is there; INVALID_ARGUMENT where
// it lies outside. Texts have no path.
absl::StatusOr<std::string> RealPathInside(const std::string& folder, const std::string& file);

// OK where it lies inside, or is not there, which its reader will say. INVALID_ARGUMENT "FOLDER/FILE: leads out ...".
absl::Status CheckInside(const std::string& folder, const std::string& file);

// ReadTextFile of one that lies inside.
absl::StatusOr<std::string> ReadModelFile(const std::string& folder, const std::string& file,
                                          int64_t max_bytes);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_MODEL_FILES_H_
