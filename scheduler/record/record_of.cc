#include "scheduler/record/record_of.h"

#include <utility>

#include "scheduler/record/schedule_tape.h"

namespace cellbatch {

RecordedSetup SetupOf(const SchedulerOptions& options, int max_tasks_in_flight,
                      const std::vector<int>& memory_of) {
  RecordedSetup setup;
  setup.max_tasks_in_flight = max_tasks_in_flight;
  setup.few_tasks_in_flight = options.few_tasks_in_flight;
  setup.max_requests = options.max_requests;
  setup.max_wait_tasks = options.max_wait_tasks;
  setup.chain_turn = options.chain_turn;
  setup.priority_ageing = options.priority_ageing;
  setup.batch_limit = options.batch_limit;
  setup.calibrate = options.calibrate;
  setup.stealing = static_cast<int>(options.stealing);
  setup.memory_of = memory_of;
  return setup;
}

RecordedPolicy RecordOf(const LaneRules& rules) {
  RecordedPolicy policy;
  policy.made = (rules.policy == nullptr && rules.may_wait.empty()) || rules.policy_spec != nullptr;
  if (rules.policy_spec != nullptr) policy.spec = *rules.policy_spec;
  return policy;
}

RecordedLane RecordOf(int index, uint32_t serial, std::shared_ptr<const Model> model,
                      const LaneRules& rules, uint32_t lives_in, std::vector<int32_t> rows) {
  RecordedLane lane;
  lane.index = index;
  lane.serial = serial;
  lane.model = std::move(model);
  lane.lives_in = lives_in;
  lane.rows = std::move(rows);
  lane.policy = RecordOf(rules);
  lane.join_made = (rules.join == nullptr || rules.join_spec != nullptr) && rules.steal == nullptr;
  if (rules.join_spec != nullptr) lane.join = *rules.join_spec;
  return lane;
}

RecordedEnd EndOf(const Request& request) {
  RecordedEnd end;
  end.code = request.status.code();
  end.first_task_start_ns = request.times.first_task_start;
  end.last_task_end_ns = request.times.last_task_end;
  end.nodes_executed = request.nodes_executed;
  for (const Subgraph& s : request.graph.subgraphs()) {
    if (s.type.valid() && s.stop.column.valid()) end.stopped_at.push_back(s.stopped_at);
  }
  return end;
}

RecordedRequest RecordOf(RequestId id, int lane, uint32_t serial, const Request& request) {
  RecordedRequest record;
  record.id = ScheduleTape::RequestWord(id.slot, id.generation);
  record.lane = lane;
  record.serial = serial;
  record.received_ns = request.times.received;
  record.submitted_ns = request.times.submitted;
  record.deadline_ns = request.times.deadline;
  record.stream = request.stream;
  record.priority = request.priority;
  record.shape = ShapeOf(request.graph);
  return record;
}

}  // namespace cellbatch
