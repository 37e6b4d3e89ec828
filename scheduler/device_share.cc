#include "scheduler/device_share.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace cellbatch {
namespace {

constexpr int kSizes = 16;  // log2 of the largest batch, and more

}  // namespace

DeviceShare::DeviceShare(int num_types, double weight)
    : weight_(weight), expected_ns_(static_cast<size_t>(num_types) * kSizes, 0) {}

int64_t& DeviceShare::Expected(int type, int32_t nodes) {
  const int size = std::bit_width(static_cast<uint32_t>(nodes));
  return expected_ns_[static_cast<size_t>(type * kSizes + std::min(size, kSizes - 1))];
}

int64_t DeviceShare::Charge(int type, int32_t nodes) {
  const int64_t ns = Expected(type, nodes);
  virtual_ns_ += static_cast<double>(ns) / weight_;
  return ns;
}

void DeviceShare::Correct(int type, int32_t nodes, int64_t charged_ns, int64_t actual_ns) {
  virtual_ns_ += static_cast<double>(actual_ns - charged_ns) / weight_;
  Expected(type, nodes) = actual_ns;
}

void DeviceShare::Wake(bool awake, double virtual_now_ns) {
  if (awake && !was_awake_) virtual_ns_ = std::max(virtual_ns_, virtual_now_ns);
  was_awake_ = awake;
}

}  // namespace cellbatch
