#include "scheduler/device_share.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace cellbatch {
namespace {

constexpr int kSizes = 16;  // log2 of the largest batch, and more

int SizeOf(int32_t nodes) {
  return std::min<int>(std::bit_width(static_cast<uint32_t>(nodes)), kSizes - 1);
}

}  // namespace

DeviceShare::DeviceShare(int num_memories, int num_types, double weight)
    : num_types_(num_types),
      weight_(weight),
      expected_ns_(static_cast<size_t>(num_memories * num_types) * kSizes, 0) {}

int64_t* DeviceShare::Expected(int memory, int type) {
  return &expected_ns_[static_cast<size_t>((memory * num_types_ + type) * kSizes)];
}

int64_t DeviceShare::Charge(int memory, int type, int32_t nodes) {
  const int64_t* const expected = Expected(memory, type);
  int size = SizeOf(nodes);
  while (size > 0 && expected[size] == 0) --size;
  const int64_t ns = expected[size];
  virtual_ns_ += static_cast<double>(ns) / weight_;
  return ns;
}

void DeviceShare::Correct(int memory, int type, int32_t nodes, int64_t charged_ns,
                          int64_t actual_ns) {
  virtual_ns_ += static_cast<double>(actual_ns - charged_ns) / weight_;
  Expected(memory, type)[SizeOf(nodes)] = actual_ns;
}

void DeviceShare::Wake(double virtual_now_ns) {
  if (!awake_) virtual_ns_ = std::max(virtual_ns_, virtual_now_ns);
  awake_ = true;
}

}  // namespace cellbatch
