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
#include "cells/device/device.h"
#include "cells/model.h"
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
// The first of them that the model lives in. REQUIRES: there is one.
const Memory& HomeOf(const Model& model, absl::Span<const Memory* const> memories);

// What `memory` makes of it (Memory::Account), and the programs for devices of its kind. `calibration`: T(b) of the first
// memory that has one is shown; empty: none was measured. As Account and ExplainCell fail.
absl::StatusOr<ExplainedModel> ExplainModel(const Model& model, const Memory& memory,
                                            absl::Span<const CellTypeCalibration> calibration);

std::string ToText(const ExplainedModel& model);
// A whole document; whatever a file said is escaped.
std::string ToHtml(const ExplainedModel& model);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_EXPLAIN_EXPLAIN_MODEL_H_
