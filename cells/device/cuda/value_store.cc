#include "cells/device/cuda/value_store.h"

#include <utility>

#include "cells/check.h"

namespace cellbatch::cuda {
namespace {

constexpr int64_t kFloat = sizeof(float);
constexpr int64_t kAlignment = 256;  // of every array: kernels load 16 bytes at once

}  // namespace

void ValueStore::Add(const float* values, int64_t floats) {
  if (!offsets_.emplace(values, bytes_).second) return;
  pieces_.push_back({values, floats, bytes_});
  bytes_ += (floats * kFloat + kAlignment - 1) / kAlignment * kAlignment;
}

absl::StatusOr<DeviceBuffer> ValueStore::Bring(std::shared_ptr<const GpuContext> gpu,
                                               LaunchQueue& queue) const {
  auto memory = DeviceBuffer::Make(std::move(gpu), bytes_);
  if (!memory.ok()) return memory.status();
  for (const Piece& piece : pieces_) {
    const DevicePtr to = memory->at() + static_cast<DevicePtr>(piece.offset);
    if (piece.floats == 0) continue;
    if (absl::Status s = queue.Bring(to, piece.from, piece.floats * kFloat); !s.ok()) return s;
  }
  return memory;
}

const float* ValueStore::At(const DeviceBuffer& brought, const float* values) const {
  const auto found = offsets_.find(values);
  Check(found != offsets_.end(), "a value that was added");
  return reinterpret_cast<const float*>(brought.at() + static_cast<DevicePtr>(found->second));
}

}  // namespace cellbatch::cuda
