// The figures gpu.saturation and gpu.latency of tests/gpu/gpu_bench, and their tables: which devices, which inputs, which rate.
#ifndef CELLBATCH_TESTS_GPU_REQUEST_FIGURES_H_
#define CELLBATCH_TESTS_GPU_REQUEST_FIGURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cells/device/device.h"
#include "cells/model.h"
#include "tests/bench/in_process.h"
#include "tests/bench/report.h"
#include "tests/gpu/gpu_requests.h"

namespace cellbatch {

struct RequestPlan {
  bool saturation = true, latency = true;
  int num_gpus = 1;
  Lengths lengths;
  double seconds = 5;  // of each measurement
  double per_s = 0;    // of open loops; 0: as `load` says
  double load = 0.3;   // of what was answered at saturation
  int num_drivers = 1;
  std::string suffix;  // of models' names
  uint64_t seed = 1;
};

class RequestFigures {
 public:
  // The devices of those GPUs, one for each ordinal.
  using DevicesOf = std::function<DeviceSet(const std::vector<int>& ordinals)>;

  // `report` outlives it.
  RequestFigures(RequestPlan plan, DevicesOf devices, Report& report);

  // Of a chain model, on every set of devices. `best_us`: a node's time at the best batch, where it was measured. False: the
  // devices do not offer what it asks for, which is printed.
  bool Add(const std::shared_ptr<const Model>& model, std::optional<double> best_us);
  // Prints the tables, and begins new ones.
  void Tell();
  // Whether anything else than what is not offered failed, which was printed.
  bool failed() const { return failed_; }

 private:
  struct Place {
    std::string shown, suffix;
    std::vector<int> ordinals;
    int num_gpus;
  };
  absl::Status Measure(const std::string& name, const Place& place, GpuServing& serving,
                       std::optional<double> best_us);
  void AddFull(const std::string& name, const Place& place, const GpuServing& serving,
               const FullGpu& full, std::optional<double> best_us);
  void AddOpen(const std::string& name, const OpenGpu& open);

  const RequestPlan plan_;
  const DevicesOf devices_;
  Report& report_;
  std::vector<Place> places_;
  Table full_, limits_, open_;
  bool any_full_ = false, any_open_ = false, failed_ = false;
};

}  // namespace cellbatch

#endif  // CELLBATCH_TESTS_GPU_REQUEST_FIGURES_H_
