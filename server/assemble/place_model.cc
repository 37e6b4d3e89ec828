#include "server/assemble/place_model.h"

#include <fmt/format.h>

namespace cellbatch {
namespace {

// As cells/device/cuda refuses a model that is loaded.
bool OnGpus(disk::Precision precision) { return precision != disk::PRECISION_W8; }
constexpr const char* kOnGpus = "PRECISION_FP32, PRECISION_TF32 and PRECISION_BF16";

// What `devices` names, if this server has it.
DeviceKinds Named(Assembly& a, DeviceKinds there) {
  const bool gpu = a.config.devices() == disk::GPU;
  const DeviceKinds named{.cpu = !gpu, .gpu = gpu};
  if (!there.Has(gpu ? DeviceKind::kGpu : DeviceKind::kCpu)) {
    a.Problem("devices", fmt::format("devices is {}, this server computes on {} (--devices)",
                                     Name(named), Name(there)));
  } else if (gpu && !OnGpus(a.config.precision())) {
    a.Problem("devices", fmt::format("devices is GPU and precision {}: GPUs compute {}",
                                     disk::Precision_Name(a.config.precision()), kOnGpus));
  }
  return named;
}

}  // namespace

DeviceKinds PlaceModel(Assembly& a) {
  DeviceKinds kinds = a.limits.devices.value_or(DeviceKinds());
  switch (a.config.devices()) {
    case disk::DEVICES_UNSPECIFIED:
      break;
    case disk::CPU:
    case disk::GPU:
      return Named(a, kinds);
    default:
      a.Problem("devices", fmt::format("devices is {}, CPU and GPU are offered",
                                       static_cast<int>(a.config.devices())));
      return kinds;
  }
  if (kinds.gpu && !OnGpus(a.config.precision())) {
    if (!kinds.cpu) {
      a.Problem("precision",
                fmt::format("precision is {}, this server computes on GPU (--devices), and GPUs "
                            "compute {}",
                            disk::Precision_Name(a.config.precision()), kOnGpus));
    }
    kinds.gpu = false;
  }
  const bool known = a.limits.devices.has_value();
  if (known && kinds.both() && a.config.bits() != disk::MAY_DIFFER) kinds.cpu = false;
  return kinds;
}

}  // namespace cellbatch
