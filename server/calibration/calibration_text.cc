#include "server/calibration/calibration_text.h"

#include <fmt/format.h>

#include <algorithm>

namespace cellbatch {

std::string WhereTimesComeFrom(absl::Span<const CellTypeCalibration> calibration) {
  const auto kept = std::count_if(calibration.begin(), calibration.end(),
                                  [](const CellTypeCalibration& c) { return c.kept; });
  const auto measured =
      std::count_if(calibration.begin(), calibration.end(),
                    [](const CellTypeCalibration& c) { return !c.kept && !c.points.empty(); });
  const auto types = [](auto n) { return fmt::format("{} cell type{}", n, n == 1 ? "" : "s"); };
  if (kept == 0) return measured == 0 ? "" : "; T(b) measured of " + types(measured);
  const std::string text = "; T(b) kept and confirmed of " + types(kept);
  return measured == 0 ? text : text + fmt::format(", measured of {}", measured);
}

}  // namespace cellbatch
