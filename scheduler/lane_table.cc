#include "scheduler/lane_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cells/check.h"

namespace cellbatch {
namespace {

size_t Index(int64_t i) { return static_cast<size_t>(i); }

}  // namespace

absl::StatusOr<LaneTable::Place> LaneTable::FindPlace(const Model& model) {
  std::lock_guard<std::mutex> lock(mutex_);
  int index = -1;
  for (int i = kMaxLanes - 1; i >= 0; --i) {
    const Lane* lane = lanes_[Index(i)].get();
    if (lane == nullptr) index = i;
    if (lane != nullptr && lane->model().id == model.id) {
      return absl::AlreadyExistsError(absl::StrCat("model \"", model.name, "\" is loaded"));
    }
  }
  if (index < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMaxLanes, " model versions are loaded; \"", model.name, "\" finds no lane"));
  }
  return Place{index, next_serial_++};
}

void LaneTable::Put(std::shared_ptr<Lane> lane) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Lane>& place = lanes_[Index(lane->index())];
  Check(place == nullptr, "a lane is put where another one is");
  place = std::move(lane);
}

void LaneTable::Open(const Lane& lane) {
  node_facts_[Index(lane.index())].store(lane.counts_nodes(), std::memory_order_relaxed);
  open_[Index(lane.index())].store(OpenWord(lane.serial(), lane.model().id),
                                   std::memory_order_release);
}

void LaneTable::Close(const Lane& lane) {
  open_[Index(lane.index())].store(0, std::memory_order_release);
}

void LaneTable::CloseAll() {
  for (std::atomic<uint64_t>& word : open_) word.store(0, std::memory_order_release);
}

void LaneTable::Remove(const Lane& lane) {
  std::shared_ptr<Lane> last;  // what it held is not given back under the lock
  std::lock_guard<std::mutex> lock(mutex_);
  last.swap(lanes_[Index(lane.index())]);
}

std::optional<LaneTable::Place> LaneTable::OpenAt(ModelId model) const {
  for (size_t i = 0; i < open_.size(); ++i) {
    const uint64_t word = open_[i].load(std::memory_order_acquire);
    if (word != 0 && static_cast<int32_t>(static_cast<uint32_t>(word)) == model.value()) {
      // Of a lane that came meanwhile, at worst: whose serial is not this one's.
      return Place{static_cast<int>(i), static_cast<uint32_t>(word >> 32),
                   node_facts_[i].load(std::memory_order_relaxed)};
    }
  }
  return std::nullopt;
}

std::shared_ptr<Lane> LaneTable::Find(ModelId model) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr && lane->model().id == model) return lane;
  }
  return nullptr;
}

std::shared_ptr<const Lane> LaneTable::FindOpen(ModelId model) const {
  std::shared_ptr<const Lane> lane = Find(model);
  if (lane == nullptr) return nullptr;
  const uint64_t word = open_[Index(lane->index())].load(std::memory_order_acquire);
  return word == OpenWord(lane->serial(), model) ? lane : nullptr;
}

std::vector<std::shared_ptr<const Lane>> LaneTable::All() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<const Lane>> all;
  for (const std::shared_ptr<Lane>& lane : lanes_) {
    if (lane != nullptr) all.push_back(lane);
  }
  return all;
}

}  // namespace cellbatch
