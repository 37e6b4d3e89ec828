#include "scheduler/scheduler_stats.h"

#include <algorithm>

namespace cellbatch {
namespace {

// Reasons that several policies share are one.
void AddDecisions(std::string_view reason, uint64_t tasks, std::vector<DecisionStats>& decisions) {
  for (DecisionStats& d : decisions) {
    if (d.reason != reason) continue;
    d.tasks += tasks;
    return;
  }
  decisions.push_back({std::string(reason), tasks});
}

template <typename T>
T Load(const std::atomic<T>& value) {
  return value.load(std::memory_order_relaxed);
}

}  // namespace

LaneStats SchedulerStatsReader::Read(const Lane& lane) {
  LaneStats stats;
  stats.model = lane.model().id;
  const std::vector<std::shared_ptr<const LanePolicy>> policies = lane.Policies();
  stats.policy = policies.back()->name;
  stats.policy_about = policies.back()->about;
  stats.policies_taken = static_cast<int64_t>(policies.size()) - 1;
  stats.join = lane.join_name();
  stats.folded = lane.memories().folded();
  const LaneCounters::Gauges gauges = lane.counters().gauges();
  stats.waiting_requests = gauges.waiting_requests;
  stats.waiting_cells = gauges.waiting_cells;
  stats.running_requests = gauges.running_requests;
  stats.rows_used = gauges.rows_used;
  stats.rows_total = lane.memories().rows_total();
  stats.device_ns = lane.counters().device_ns();
  for (int t = 0; t < lane.num_types(); ++t) {
    const TypeCounters& c = lane.type_counters(t);
    CellTypeStats& type = stats.types.emplace_back();
    type.name = lane.model().types[static_cast<size_t>(t)].name;
    type.tasks = Load(c.tasks);
    type.cells = Load(c.cells);
    type.padding = Load(c.padding);
    type.discarded = Load(c.discarded);
    type.stop_steps = Load(c.stop_steps);
    type.overrun = Load(c.overrun);
    type.ready = lane.counters().ready(t);
    type.batch_size = c.batch_size.Read();
    type.task_ns = c.task_ns.Read();
    for (size_t i = 0; i < c.batch_ns.size(); ++i) type.batch_ns[i] = Load(c.batch_ns[i]);
  }
  for (const std::shared_ptr<const LanePolicy>& policy : policies) {
    const std::vector<std::string_view>& reasons = policy->decider.reasons();
    for (size_t r = 0; r < reasons.size(); ++r) {
      AddDecisions(reasons[r], Load(policy->decisions[r]), stats.decisions);
    }
  }
  return stats;
}

std::vector<LaneStats> SchedulerStatsReader::Lanes() const {
  std::vector<LaneStats> all;
  for (const std::shared_ptr<const Lane>& lane : lanes_.All()) all.push_back(Read(*lane));
  return all;
}

std::vector<TypeTasks> SchedulerStatsReader::TasksOf(ModelId model) const {
  std::vector<TypeTasks> all;
  for (const std::shared_ptr<const Lane>& lane : lanes_.All()) {
    if (lane->model().id != model) continue;
    all.resize(std::max(all.size(), static_cast<size_t>(lane->num_types())));
    for (int t = 0; t < lane->num_types(); ++t) {
      const TypeCounters& c = lane->type_counters(t);
      all[static_cast<size_t>(t)].tasks += Load(c.tasks);
      all[static_cast<size_t>(t)].ns += c.task_ns.sum();
    }
  }
  return all;
}

std::vector<DeviceStats> SchedulerStatsReader::Devices() const {
  std::vector<DeviceStats> all;
  for (const DeviceParts& device : devices_) {
    DeviceStats& stats = all.emplace_back();
    stats.name = device.name;
    stats.details = device.details;
    stats.kind = device.kind;
    stats.tasks = Load(device.counters->tasks);
    stats.busy_ns = Load(device.counters->busy_ns);
    stats.tasks_in_flight = device.ring->in_flight_gauge();
    if (!device.worker->failed()) continue;
    stats.healthy = false;
    stats.failure = std::string(device.worker->failure().message());
  }
  return all;
}

}  // namespace cellbatch
