// Something kept for every model version that is there, found by ModelId with one load and made by whoever asks first.
//
//   id = turn * kModelPlaces + place      ModelIds gives them out: a place is had by one version at a time, a turn at it
//                                         comes once (and again after kModelTurns others)
//
// So a table is as large as there are places, however many versions are loaded in its life. What was kept of the version
// that had a place goes when the next one there is asked for. REQUIRES: whoever asks holds the model of that id, and a
// place is given away only when nobody does (ModelIds::Hold). Then what is returned stays for as long as the model is held.
// Any thread.
#ifndef CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_
#define CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cells/check.h"
#include "cells/ids.h"

namespace cellbatch {

// Versions that are there at once: those that serve, and those that somebody still holds. Beyond: RESOURCE_EXHAUSTED.
inline constexpr int kModelPlaces = 4096;
inline constexpr int kModelTurns = 1 << 19;

inline size_t PlaceOf(ModelId id) { return static_cast<size_t>(id.value() % kModelPlaces); }

template <typename T>
class ModelTable {
 public:
  ModelTable() = default;
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  // `make` returns a std::unique_ptr<T>; it is called at most once a model, under a mutex.
  template <typename Make>
  T& Of(ModelId id, Make make) {
    if (T* entry = Find(id)) return *entry;
    Check(id.valid(), "a model has an id that nobody gave it");
    const std::lock_guard lock(making_);
    Slot& slot = slots_[PlaceOf(id)];
    if (slot.id.load(std::memory_order_relaxed) != id.value()) {
      slot.entry = make();
      slot.id.store(id.value(), std::memory_order_release);
    }
    return *slot.entry;
  }

  T* Find(ModelId id) const {
    if (!id.valid()) return nullptr;
    const Slot& slot = slots_[PlaceOf(id)];
    return slot.id.load(std::memory_order_acquire) == id.value() ? slot.entry.get() : nullptr;
  }

 private:
  struct Slot {
    std::atomic<int32_t> id = -1;  // whose the entry is
    std::unique_ptr<T> entry;      // written while nobody holds a model of that id
  };

  std::array<Slot, kModelPlaces> slots_;
  std::mutex making_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_
