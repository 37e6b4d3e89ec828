// Adds up what the manager recorded, for the metrics exporter. Readers share the lanes they read.
#ifndef CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_
#define CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_

#include <string>
#include <utility>
#include <vector>

#include "scheduler/lane.h"
#include "scheduler/lane_table.h"
#include "scheduler/manager.h"
#include "scheduler/stats.h"

namespace cellbatch {

class SchedulerStatsReader final : public SchedulerStats {
 public:
  explicit SchedulerStatsReader(const LaneTable& lanes) : lanes_(lanes) {}

  // While the scheduler is made.
  void AddDevice(const DeviceInfo& info, const TaskRing& ring, const Worker& worker,
                 const DeviceCounters& counters) {
    devices_.push_back({info.name, info.details, info.memory->kind(), &ring, &worker, &counters});
  }

  static LaneStats Read(const Lane& lane);
  std::vector<LaneStats> Lanes() const override;
  std::vector<DeviceStats> Devices() const override;
  std::vector<TypeTasks> TasksOf(ModelId model) const override;

 private:
  struct DeviceParts {
    std::string name, details;
    DeviceKind kind;
    const TaskRing* ring;
    const Worker* worker;
    const DeviceCounters* counters;
  };

  const LaneTable& lanes_;
  std::vector<DeviceParts> devices_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_
