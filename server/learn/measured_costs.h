// What tasks of a model take: measured on this machine's devices, or read from a file that was.
//
// Measured as the server does at load (T(b) of each cell type through the ordinary ring), then in a rehearsal: the real
// scheduler serves a closed loop of the model's own requests for a second, and what tasks took more there than alone, and
// what manager and worker took for each, is noted beside them; so is how long answers lay before they were taken. Waking a
// thread that sleeps is measured by waking one.
#ifndef CELLBATCH_SERVER_LEARN_MEASURED_COSTS_H_
#define CELLBATCH_SERVER_LEARN_MEASURED_COSTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/model.h"
#include "scheduler/offline/world/serving_world.h"
#include "scheduler/offline/world/task_costs.h"

namespace cellbatch {

struct MeasuredCosts {
  TaskCosts alone;               // as the server measures them at load
  std::vector<double> served;    // by type: times as long while requests are served
  int64_t task_overhead_ns = 0;  // of manager and worker, a task
  int64_t wake_ns = 0;
  int64_t answer_ns = 0;  // from a request's last task to whoever takes its answer
  std::string origin;     // for people: "measured on cpu:0-1"

  // What a world of it is given.
  TaskCosts InWorld() const { return alone.Slower(served, task_overhead_ns); }
};

// `devices` as --devices of the server; of several alike, of the first. `make`: requests that can be run; `shapes` of them.
// Errors of parsing and loading. Seconds.
absl::StatusOr<MeasuredCosts> MeasureCosts(const std::string& devices,
                                           std::shared_ptr<const Model> model,
                                           const MakeGraph& make, int32_t shapes);

// proto/task_costs.proto. INVALID_ARGUMENT "FILE:LINE: ..." or "FILE: ..." with the field and both values.
std::string CostsText(const MeasuredCosts& costs, const Model& model);
absl::StatusOr<MeasuredCosts> ParseCosts(std::string_view text, const std::string& name,
                                         const Model& model);
absl::StatusOr<MeasuredCosts> ReadCosts(const std::string& file, const Model& model);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_LEARN_MEASURED_COSTS_H_
