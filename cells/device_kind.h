// The kinds of devices, as far as answers depend on them: a GPU sums in another order than a CPU, so the last bits of an answer
// say which of the two computed it. Plain values; any thread.
#ifndef CELLBATCH_CELLS_DEVICE_KIND_H_
#define CELLBATCH_CELLS_DEVICE_KIND_H_

#include <cstdint>

namespace cellbatch {

enum class DeviceKind : uint8_t { kCpu, kGpu };

// A set of them; any, if nothing is said.
struct DeviceKinds {
  bool cpu = true, gpu = true;

  constexpr bool Has(DeviceKind kind) const { return kind == DeviceKind::kCpu ? cpu : gpu; }
  constexpr bool both() const { return cpu && gpu; }
  bool operator==(const DeviceKinds&) const = default;
};

// "CPU", "GPU", "CPU and GPU".
constexpr const char* Name(DeviceKinds kinds) {
  if (kinds.both()) return "CPU and GPU";
  return kinds.cpu ? "CPU" : kinds.gpu ? "GPU" : "nothing";
}

}  // namespace cellbatch

#endif  // CELLBATCH_CELLS_DEVICE_KIND_H_
