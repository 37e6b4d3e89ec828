// What became of a model, cell type by cell type, as text for a terminal and as a page: equations, program, kernels, plan,
// copies, what was prepared at load, T(b). Put together from what cells (cells/explain), the device (Memory::Account) and the
// scheduler (Calibration) say of it.
//
// Pure, any thread; milliseconds a cell type. What it makes is bounded: a part by kMostPartBytes, all of it by
// kMostExplainedBytes; what is cut says so.
#ifndef CELLBATCH_SERVER_EXPLAIN_EXPLAIN_MODEL_H_
#define CELLBATCH_SERVER_EXPLAIN_EXPLAIN_MODEL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "cells/device/account.h"
#include "cells/device/device.h"
#include "cells/model.h"
#include "cells/program/program_limits.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

inline constexpr size_t kMostPartBytes = 64 << 10;
inline constexpr size_t kMostExplainedBytes = 1 << 20;

struct ExplainedPart {
  std::string heading;
  std::string text;  // lines
};

struct ExplainedType {
  std::string title;
  std::vector<ExplainedPart> parts;
};

struct ExplainedModel {
  std::string title;
  std::vector<ExplainedType> types;
  int left_out = 0;  // types beyond kMostExplainedBytes
};

// The memories of a set, which owns them.
std::vector<const Memory*> MemoriesIn(const DeviceSet& devices);
// What the first of them that the model lives in makes of it (Memory::Account). REQUIRES: there is one.
absl::StatusOr<ModelAccount> AccountOf(const Model& model,
                                       absl::Span<const Memory* const> memories);

// `limits`: of the device that `account` is of. `calibration`: T(b) of the first memory that has one is shown; empty: none
// was measured. As ExplainCell fails.
absl::StatusOr<ExplainedModel> ExplainModel(const Model& model, const ProgramLimits& limits,
                                            const ModelAccount& account,
                                            absl::Span<const CellTypeCalibration> calibration);

std::string ToText(const ExplainedModel& model);
// A whole document; whatever a file said is escaped.
std::string ToHtml(const ExplainedModel& model);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_EXPLAIN_EXPLAIN_MODEL_H_
