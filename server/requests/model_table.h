// Something kept for every model version, found by ModelId with one load and made by whoever asks
// first. Entries stay as long as the table, so a reference never goes stale; the table grows by parts. Any thread.
#ifndef CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_
#define CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cells/check.h"
#include "cells/ids.h"

namespace cellbatch {

// Ids beyond are not given out (ModelRepository says RESOURCE_EXHAUSTED).
inline constexpr int kMaxModelVersions = 1 << 22;  // loaded in one process's life

template <typename T>
class ModelTable {
 public:
  ModelTable() = default;
  ~ModelTable() {
    for (auto& part : parts_) delete part.load();
  }
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  // `make` returns a std::unique_ptr<T>; it is called at most once a model, under a mutex.
  template <typename Make>
  T& Of(ModelId id, Make make) {
    if (T* entry = Find(id)) return *entry;
    Check(id.valid() && id.value() < kMaxModelVersions, "a model has an id that nobody gave it");
    const std::lock_guard lock(making_);
    std::atomic<Part*>& part = parts_[static_cast<size_t>(id.value() / kPart)];
    if (part.load(std::memory_order_relaxed) == nullptr) {
      part.store(std::make_unique<Part>().release(), std::memory_order_release);
    }
    std::atomic<T*>& slot = part.load(std::memory_order_relaxed)->slots[SlotOf(id)];
    if (slot.load(std::memory_order_relaxed) == nullptr) {
      slot.store(make().release(), std::memory_order_release);
    }
    return *slot.load(std::memory_order_relaxed);
  }

  T* Find(ModelId id) const {
    if (!id.valid() || id.value() >= kMaxModelVersions) return nullptr;
    const Part* part =
        parts_[static_cast<size_t>(id.value() / kPart)].load(std::memory_order_acquire);
    return part == nullptr ? nullptr : part->slots[SlotOf(id)].load(std::memory_order_acquire);
  }

  std::vector<T*> All() const {
    std::vector<T*> all;
    for (const auto& atomic_part : parts_) {
      const Part* part = atomic_part.load(std::memory_order_acquire);
      for (int i = 0; part != nullptr && i < kPart; ++i) {
        if (T* entry = part->slots[static_cast<size_t>(i)].load(std::memory_order_acquire)) {
          all.push_back(entry);
        }
      }
    }
    return all;
  }

 private:
  static constexpr int kPart = 4096;
  struct Part {
    ~Part() {
      for (auto& slot : slots) delete slot.load();
    }
    std::array<std::atomic<T*>, kPart> slots = {};
  };
  static size_t SlotOf(ModelId id) { return static_cast<size_t>(id.value() % kPart); }

  std::array<std::atomic<Part*>, kMaxModelVersions / kPart> parts_ = {};
  std::mutex making_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_MODEL_TABLE_H_
