// cellbatch-server --check: every model read and compiled, nothing put on a device. Any thread; takes as long as reading all
// weights does, and the memory of one model.
#ifndef CELLBATCH_SERVER_REPOSITORY_CHECK_REPOSITORY_H_
#define CELLBATCH_SERVER_REPOSITORY_CHECK_REPOSITORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"
#include "server/repository/model_loader.h"

namespace cellbatch {

// What a check found of one model.
struct CheckedModel {
  std::string name;
  std::vector<int64_t> versions;  // that would be served; empty: the folder has none
  std::vector<std::string>
      problems;         // "FILE:LINE: what" as far as they have one; empty: it could be served
  std::string summary;  // then: "3 cell types, 5124 parameters, TOKENS -> OUTPUT [5]"
};

// Reads and compiles every model of every folder, without a device. Fails where the root
// cannot be read or holds no model. Those beyond `max_models` have that problem, as they have at the start.
absl::StatusOr<std::vector<CheckedModel>> CheckRepository(const std::string& root,
                                                          const LoaderLimits& limits,
                                                          int64_t max_models = kMostModels);

// The same for people and their scripts. `problems`: a line each, `model "a": config.textproto:3: what`. `report`: a
// line for each model that could be served, and a count of both.
struct CheckReport {
  std::string problems;
  std::string report;
};
CheckReport DescribeCheck(const std::vector<CheckedModel>& models);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REPOSITORY_CHECK_REPOSITORY_H_
