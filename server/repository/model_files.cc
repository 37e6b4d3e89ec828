#include "server/repository/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "server/repository/text_file.h"

namespace cellbatch {

namespace fs = std::filesystem;

absl::StatusOr<std::string> RealPathInside(const std::string& folder, const std::string& file) {
  std::error_code error;
  const fs::path inside = fs::canonical(folder, error);
  const fs::path real = error ? fs::path() : fs::canonical(inside / file, error);
  if (error == std::errc::no_such_file_or_directory) return absl::NotFoundError(error.message());
  if (error) return absl::InvalidArgumentError(error.message());
  const auto [end, ignored] = std::mismatch(inside.begin(), inside.end(), real.begin(), real.end());
  if (end == inside.end()) return real.string();
  return absl::InvalidArgumentError("leads out of the model's folder");
}

absl::Status CheckInside(const std::string& folder, const std::string& file) {
  const absl::Status real = RealPathInside(folder, file).status();
  if (real.ok() || absl::IsNotFound(real)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}/{}: {}", folder, file, std::string(real.message())));
}

absl::StatusOr<std::string> ReadModelFile(const std::string& folder, const std::string& file,
                                          int64_t max_bytes) {
  if (absl::Status inside = CheckInside(folder, file); !inside.ok()) return inside;
  return ReadTextFile(folder + "/" + file, max_bytes);
}

}  // namespace cellbatch
