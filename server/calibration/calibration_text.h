// Where T(b) of a model comes from, for the log. Any thread.
#ifndef CELLBATCH_SERVER_CALIBRATION_CALIBRATION_TEXT_H_
#define CELLBATCH_SERVER_CALIBRATION_CALIBRATION_TEXT_H_

#include <string>

#include "absl/types/span.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// To stand behind something: "; T(b) kept and confirmed of 3 cell types, measured of 1", each type counted in each memory; empty: there is none.
std::string WhereTimesComeFrom(absl::Span<const CellTypeCalibration> calibration);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_CALIBRATION_CALIBRATION_TEXT_H_
