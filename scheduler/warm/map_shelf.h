// A shelf for tests: a map that can be looked into.
#ifndef CELLBATCH_SCHEDULER_WARM_MAP_SHELF_H_
#define CELLBATCH_SCHEDULER_WARM_MAP_SHELF_H_

#include <map>
#include <string>
#include <vector>

#include "scheduler/warm/calibration_shelf.h"

namespace cellbatch::testing {

class MapShelf final : public CalibrationShelf {
 public:
  std::vector<CalibrationPoint> Find(const CalibrationKey& key) override {
    ++asked;
    const auto found = kept.find(key.depends_on);
    return found == kept.end() ? std::vector<CalibrationPoint>() : found->second;
  }
  void Keep(const CalibrationKey& key, absl::Span<const CalibrationPoint> points) override {
    ++told;
    kept[key.depends_on] = {points.begin(), points.end()};
  }
  int asked = 0, told = 0;
  std::map<std::string, std::vector<CalibrationPoint>> kept;  // by what it depends on
};

}  // namespace cellbatch::testing

#endif  // CELLBATCH_SCHEDULER_WARM_MAP_SHELF_H_
