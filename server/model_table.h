// Something kept for every model version, found by ModelId with one load and made by whoever asks
// first. Entries stay as long as the table, so a reference never goes stale. Any thread.
#ifndef CELLBATCH_SERVER_MODEL_TABLE_H_
#define CELLBATCH_SERVER_MODEL_TABLE_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "cells/check.h"
#include "cells/ids.h"

namespace cellbatch {

template <typename T>
class ModelTable {
 public:
  static constexpr int kMaxModels = 4096;  // model versions loaded in one process's life

  ModelTable() = default;
  ~ModelTable() {
    for (auto& slot : slots_) delete slot.load();
  }
  ModelTable(const ModelTable&) = delete;
  ModelTable& operator=(const ModelTable&) = delete;

  // `make` returns a std::unique_ptr<T>; it is called at most once a model, under a mutex.
  template <typename Make>
  T& Of(ModelId id, Make make) {
    Check(id.valid() && id.value() < kMaxModels, "more model versions than a process may load");
    std::atomic<T*>& slot = slots_[static_cast<size_t>(id.value())];
    if (T* entry = slot.load(std::memory_order_acquire)) return *entry;
    const std::lock_guard lock(making_);
    if (slot.load(std::memory_order_acquire) == nullptr) {
      slot.store(make().release(), std::memory_order_release);
    }
    return *slot.load(std::memory_order_acquire);
  }

  T* Find(ModelId id) const {
    if (!id.valid() || id.value() >= kMaxModels) return nullptr;
    return slots_[static_cast<size_t>(id.value())].load(std::memory_order_acquire);
  }

  std::vector<T*> All() const {
    std::vector<T*> all;
    for (const auto& slot : slots_) {
      if (T* entry = slot.load(std::memory_order_acquire)) all.push_back(entry);
    }
    return all;
  }

 private:
  std::array<std::atomic<T*>, kMaxModels> slots_ = {};
  std::mutex making_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_MODEL_TABLE_H_
