// Adds up what the manager recorded, for the metrics exporter. Readers lock against lanes coming and
// going; the manager never takes that lock.
#ifndef CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_
#define CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/lane.h"
#include "scheduler/manager.h"
#include "scheduler/stats.h"

namespace cellbatch {

class SchedulerStatsReader final : public SchedulerStats {
 public:
  SchedulerStatsReader(std::mutex& mutex, const std::vector<std::unique_ptr<Lane>>& lanes)
      : mutex_(mutex), lanes_(lanes) {}

  // While the scheduler is made.
  void AddDevice(std::string name, const TaskRing& ring, const Worker& worker,
                 const DeviceCounters& counters) {
    devices_.push_back({std::move(name), &ring, &worker, &counters});
  }

  std::vector<LaneStats> Lanes() const override;
  std::vector<DeviceStats> Devices() const override;

 private:
  struct DeviceParts {
    std::string name;
    const TaskRing* ring;
    const Worker* worker;
    const DeviceCounters* counters;
  };
  static LaneStats Read(const Lane& lane);

  std::mutex& mutex_;
  const std::vector<std::unique_ptr<Lane>>& lanes_;
  std::vector<DeviceParts> devices_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_SCHEDULER_STATS_H_
