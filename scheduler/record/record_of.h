// What a record says of a scheduler, a lane, a request, an end.
#ifndef CELLBATCH_SCHEDULER_RECORD_RECORD_OF_H_
#define CELLBATCH_SCHEDULER_RECORD_RECORD_OF_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "cells/model.h"
#include "scheduler/policy/lane_rules.h"
#include "scheduler/record/recorded_run.h"
#include "scheduler/request.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

RecordedSetup SetupOf(const SchedulerOptions& options, int max_tasks_in_flight,
                      const std::vector<int>& memory_of);
// rows: by table, in each memory.
RecordedLane RecordOf(int index, uint32_t serial, std::shared_ptr<const Model> model,
                      const LaneRules& rules, uint32_t lives_in, std::vector<int32_t> rows);
RecordedPolicy RecordOf(const LaneRules& rules);
// All that is known when it is submitted.
RecordedRequest RecordOf(RequestId id, int lane, uint32_t serial, const Request& request);
// Of one that is answered.
RecordedEnd EndOf(const Request& request);

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_RECORD_RECORD_OF_H_
