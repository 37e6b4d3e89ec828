// Of a model that is loaded: what a shelf has of its T(b) is told to its calibration before that begins, and what was
// measured instead is put there once it is done.
//
//   loaded -> FindKeys     Tell: what the shelf has --> Calibration::Know     (warms)     Keep: what was measured --> the shelf
//
// Control thread. Without a shelf it does nothing.
#ifndef CELLBATCH_SCHEDULER_WARM_KEPT_TIMES_H_
#define CELLBATCH_SCHEDULER_WARM_KEPT_TIMES_H_

#include <vector>

#include "cells/device/device.h"
#include "cells/model.h"
#include "scheduler/warm/calibration.h"
#include "scheduler/warm/calibration_shelf.h"

namespace cellbatch {

// Raised when what calibration measures, or how it chooses sizes, changes: what was kept before is not asked for any more.
inline constexpr int kCalibrationFormat = 2;

// `account`: what the device's memory made of the model (Memory::Account); of a memory that says nothing the definition
// has to do. `limit`: the largest size that is measured.
CalibrationKey KeyOf(const DeviceInfo& device, const Model& model, CellTypeId type,
                     const ModelAccount& account, int32_t limit);

class KeptTimes {
 public:
  // `shelf` null: there is none.
  KeptTimes(CalibrationShelf* shelf, const Model& model) : shelf_(shelf), model_(model) {}

  // `devices`: the workers', in their order; of one that does not say what it is (DeviceInfo::kind) nothing is kept.
  // Compiles the model once more for each memory: milliseconds.
  void FindKeys(const DeviceSet& devices, const Calibration& calibration);
  // Before the first task.
  void Tell(Calibration& calibration) const;
  // Once it is done, and all of it went well.
  void Keep(const Calibration& calibration) const;

 private:
  struct OfMemory {
    int measurer = -1;
    std::vector<CalibrationKey> keys;  // by type; empty: nothing of it is kept
  };

  CalibrationShelf* const shelf_;
  const Model& model_;
  std::vector<OfMemory> memories_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SCHEDULER_WARM_KEPT_TIMES_H_
