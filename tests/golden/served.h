// The whole in-process: a scheduler with its threads on CPU devices, requests in, answers out.
// For tests that ask what requests get, not how.
#ifndef CELLBATCH_TESTS_GOLDEN_SERVED_H_
#define CELLBATCH_TESTS_GOLDEN_SERVED_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "cells/cell_graph.h"
#include "cells/model.h"
#include "scheduler/clock.h"
#include "scheduler/scheduler.h"

namespace cellbatch::golden {

class Served {
 public:
  // `devices` CPU devices of one core each, sharing what cores there are. max_tasks_in_flight as in
  // SchedulerOptions.
  static absl::StatusOr<std::unique_ptr<Served>> Start(int devices, int max_tasks_in_flight = 0);
  ~Served();

  Scheduler& scheduler() { return *scheduler_; }
  absl::Status Add(std::shared_ptr<const Model> model);
  // Submits all at once and waits for all; by position. An answer's status is the request's.
  std::vector<std::unique_ptr<Request>> Answer(const std::shared_ptr<const Model>& model,
                                               std::vector<CellGraph> graphs);

 private:
  Served() = default;
  SteadyClock clock_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::shared_ptr<const Model>> models_;
};

}  // namespace cellbatch::golden

#endif  // CELLBATCH_TESTS_GOLDEN_SERVED_H_
