// One file of --calibration-cache, to and from points. Plain functions; any thread.
#ifndef CELLBATCH_SERVER_CALIBRATION_KEPT_CALIBRATION_H_
#define CELLBATCH_SERVER_CALIBRATION_KEPT_CALIBRATION_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/warm/calibration_shelf.h"

namespace cellbatch {

// Of a file; and of one T(b) in it: the ladder of --batch-limit's most has 25 sizes.
inline constexpr int64_t kMostKeptBytes = 64 << 10;
inline constexpr int kMostKeptPoints = 64;
inline constexpr int64_t kMostKeptNs = int64_t{60} * 1'000'000'000;

std::string KeptCalibrationText(const CalibrationKey& key, const std::string& fingerprint,
                                absl::Span<const CalibrationPoint> points);

// `name`: what errors begin with. INVALID_ARGUMENT: it is no such text, or of another fingerprint, or says what no
// calibration measures: points are 1 to kMostKeptPoints, batches ascend from 1, times are 1 to kMostKeptNs and do not fall.
absl::StatusOr<std::vector<CalibrationPoint>> ParseKeptCalibration(std::string_view text,
                                                                   const std::string& name,
                                                                   const std::string& fingerprint);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CALIBRATION_KEPT_CALIBRATION_H_
