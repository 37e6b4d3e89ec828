#include "scheduler/lane_counters.h"

namespace cellbatch {

void LaneCounters::TaskDone(int type, int32_t nodes, int64_t ns) {
  TypeCounters& c = this->type(type);
  AddTo<uint64_t>(c.tasks, 1);
  AddTo<uint64_t>(c.cells, static_cast<uint64_t>(nodes));
  c.batch_size.Record(nodes);
  c.task_ns.Record(ns);
  AddTo(c.batch_ns[static_cast<size_t>(BatchBucketOf(nodes))], ns);
  AddTo(device_ns_, ns);
}

void LaneCounters::SetGauges(const Gauges& gauges) {
  const auto set = [](std::atomic<int64_t>& gauge, int64_t value) {
    gauge.store(value, std::memory_order_relaxed);
  };
  set(waiting_requests_, gauges.waiting_requests);
  set(waiting_cells_, gauges.waiting_cells);
  set(running_requests_, gauges.running_requests);
  set(rows_used_, gauges.rows_used);
}

LaneCounters::Gauges LaneCounters::gauges() const {
  const auto get = [](const std::atomic<int64_t>& gauge) {
    return gauge.load(std::memory_order_relaxed);
  };
  return {get(waiting_requests_), get(waiting_cells_), get(running_requests_), get(rows_used_)};
}

}  // namespace cellbatch
