// Where T(b) is kept from one start to the next. The scheduler asks and tells; whoever made it says where that lies
// (cellbatch-server: files, server/calibration).
//
// Called on AddModel's thread alone, one call at a time; may read and write files, for nobody waits for it but a model that
// is loaded. Outlives the scheduler. What it has is a hint: it is used once a few tasks have confirmed it (calibration.h).
#ifndef CELLBATCH_SCHEDULER_WARM_CALIBRATION_SHELF_H_
#define CELLBATCH_SCHEDULER_WARM_CALIBRATION_SHELF_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/scheduler.h"

namespace cellbatch {

// Of one cell type on one sort of device.
struct CalibrationKey {
  std::string device, type;  // for people: DeviceInfo::kind, and the type's name in its model
  // All that its T(b) depends on, as text: two of the same text have the same T(b), whatever model they are of.
  std::string depends_on;
};

class CalibrationShelf {
 public:
  virtual ~CalibrationShelf() = default;
  // Sizes ascend. Empty: it has none, or none that it can read.
  virtual std::vector<CalibrationPoint> Find(const CalibrationKey& key) = 0;
  // In place of what it had. What it cannot keep is its own to tell.
  virtual void Keep(const CalibrationKey& key, absl::Span<const CalibrationPoint> points) = 0;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_CALIBRATION_SHELF_H_
