// Notices, while a server serves, which of its devices have failed since it looked last, and whether one is left: what it says and
// does about that is the server's. One thread; a look asks every device and allocates, some microseconds.
#ifndef CELLBATCH_SERVER_DEVICE_WATCH_H_
#define CELLBATCH_SERVER_DEVICE_WATCH_H_

#include <cstddef>
#include <string>

#include "scheduler/stats.h"

namespace cellbatch {

struct DeviceNews {
  bool any_left = true;
  // Every device that has failed, and why: "device cuda:0: smoke; device cuda:1: ash". Empty: none since the last look.
  std::string failed;
};

class DeviceWatch {
 public:
  // `stats` outlives it.
  explicit DeviceWatch(const SchedulerStats& stats) : stats_(stats) {}

  DeviceNews Look();

 private:
  const SchedulerStats& stats_;
  size_t failed_ = 0;  // a device that has failed stays so
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_DEVICE_WATCH_H_
