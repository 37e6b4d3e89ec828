#include "server/calibration/calibration_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <system_error>

#include "cells/whole_file.h"
#include "server/calibration/kept_calibration.h"
#include "server/names/fingerprint.h"
#include "server/repository/text_file.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::hours kLeftOver{1};  // a file is written in far less

// What servers left that were killed while they wrote.
void RemoveLeftOvers(const std::string& folder) {
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator file(folder, error); !error && file != fs::directory_iterator();
       file.increment(error)) {
    if (!file->path().filename().string().starts_with(WholeFile::kPrefix)) continue;
    std::error_code ignored;  // another server may be faster
    const auto written = fs::last_write_time(file->path(), ignored);
    if (!ignored && now - written > kLeftOver) fs::remove(file->path(), ignored);
  }
}

absl::Status Write(const std::string& path, const std::string& text) {
  WholeFile file(path);
  file.LetAllRead();  // servers of other users share the folder
  file.Append(text);
  const std::error_code error = file.Publish();
  if (!error) return absl::OkStatus();
  return absl::InternalError(fmt::format("{}: cannot be written: {}", path, error.message()));
}

}  // namespace

std::string ProgramStamp() {
  std::error_code error;
  const auto size = fs::file_size("/proc/self/exe", error);
  if (error) return "";
  const auto written = fs::last_write_time("/proc/self/exe", error);
  if (error) return "";
  return fmt::format("{} bytes of {}", size, written.time_since_epoch().count());
}

absl::StatusOr<std::unique_ptr<CalibrationFolder>> CalibrationFolder::Open(
    const std::string& folder, std::string program) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && !fs::is_directory(folder, error)) {
    error = std::make_error_code(std::errc::not_a_directory);
  }
  if (error) {
    return absl::FailedPreconditionError(fmt::format(
        "--calibration-cache={}: no folder can be made there: {}", folder, error.message()));
  }
  std::unique_ptr<CalibrationFolder> made(new CalibrationFolder(folder, std::move(program)));
  const std::string probe = fmt::format("{}/.probe.{}", folder, getpid());
  if (absl::Status s = Write(probe, ""); !s.ok()) {
    return absl::FailedPreconditionError(
        fmt::format("--calibration-cache={}: {}", folder, std::string(s.message())));
  }
  fs::remove(probe, error);
  RemoveLeftOvers(folder);
  return made;
}

std::string CalibrationFolder::FingerprintOf(const CalibrationKey& key) const {
  Fingerprint print;
  print.Add(program_);
  print.Add(key.depends_on);
  return print.Hex();
}

std::string CalibrationFolder::PathOf(const CalibrationKey& key) const {
  return fmt::format("{}/{}.textproto", folder_, FingerprintOf(key));
}

std::vector<CalibrationPoint> CalibrationFolder::Find(const CalibrationKey& key) {
  const std::string path = PathOf(key);
  const absl::StatusOr<std::string> text = ReadTextFile(path, kMostKeptBytes);
  if (absl::IsNotFound(text.status())) return {};
  const auto points =
      text.ok() ? ParseKeptCalibration(*text, path, FingerprintOf(key)) : text.status();
  if (points.ok()) return *points;
  spdlog::warn("{}; T(b) of cell type \"{}\" is measured", std::string(points.status().message()),
               key.type);
  return {};
}

void CalibrationFolder::Keep(const CalibrationKey& key, absl::Span<const CalibrationPoint> points) {
  // Shorter than a tick of its device's clock: Find would refuse it.
  if (points.empty() || points[0].task_ns < 1) return;
  const absl::Status written =
      Write(PathOf(key), KeptCalibrationText(key, FingerprintOf(key), points));
  if (written.ok()) return;
  spdlog::warn("{}; T(b) of cell type \"{}\" is not kept", std::string(written.message()),
               key.type);
}

}  // namespace cellbatch
