#include "server/calibration/kept_calibration.h"

#include <fmt/format.h>
#include <google/protobuf/text_format.h>

#include "proto/kept_calibration.pb.h"
#include "server/repository/text_file.h"

namespace cellbatch {
namespace {

absl::Status Wrong(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}", name, what));
}

}  // namespace

std::string KeptCalibrationText(const CalibrationKey& key, const std::string& fingerprint,
                                absl::Span<const CalibrationPoint> points) {
  disk::KeptCalibration file;
  file.set_fingerprint(fingerprint);
  file.set_device(key.device);
  file.set_cell_type(key.type);
  std::string text =
      "# T(b) of a cell type, for the next start of cellbatch-server "
      "(proto/kept_calibration.proto). "
      "It may be deleted.\n";
  std::string head;
  google::protobuf::TextFormat::PrintToString(file, &head);
  text += head;
  for (const CalibrationPoint& point : points) {
    text += fmt::format("points {{ batch: {} ns: {} }}\n", point.batch, point.task_ns);
  }
  return text;
}

absl::StatusOr<std::vector<CalibrationPoint>> ParseKeptCalibration(std::string_view text,
                                                                   const std::string& name,
                                                                   const std::string& fingerprint) {
  disk::KeptCalibration file;
  if (absl::Status s = ParseTextFormat(text, name, file, nullptr); !s.ok()) return s;
  if (file.fingerprint() != fingerprint) {
    return Wrong(name, fmt::format("fingerprint is \"{}\", what is asked for has \"{}\"",
                                   file.fingerprint(), fingerprint));
  }
  if (file.points_size() < 1 || file.points_size() > kMostKeptPoints) {
    return Wrong(
        name, fmt::format("{} points, allowed are 1 to {}", file.points_size(), kMostKeptPoints));
  }
  std::vector<CalibrationPoint> points;
  for (const disk::TaskCostPoint& point : file.points()) {
    const int32_t least = points.empty() ? 1 : points.back().batch + 1;
    if (point.batch() < least || (points.empty() && point.batch() != 1)) {
      return Wrong(name,
                   fmt::format("point {} has batch {}, {} is {}", points.size(), point.batch(),
                               points.empty() ? "the first" : "the least", least));
    }
    const int64_t least_ns = points.empty() ? 1 : points.back().task_ns;
    if (point.ns() < least_ns || point.ns() > kMostKeptNs) {
      return Wrong(name, fmt::format("batch {} takes {} ns, allowed are {} to {}", point.batch(),
                                     point.ns(), least_ns, kMostKeptNs));
    }
    points.push_back({point.batch(), point.ns()});
  }
  return points;
}

}  // namespace cellbatch
