// Handles that the emulated libraries give out, and what they stand for. A handle is a number that is never given twice, dressed
// as a pointer: one that was destroyed, or made up, is told from all others and never followed.
//
// Any thread. What a handle stands for lives on while somebody uses it, though the handle be gone.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HANDLE_TABLE_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HANDLE_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace cellbatch::emulator {

template <typename T>
class HandleTable {
 public:
  template <typename Handle>
  Handle Add(std::shared_ptr<T> what) {
    const std::lock_guard lock(mutex_);
    next_ += kStep;
    all_[next_] = std::move(what);
    return reinterpret_cast<Handle>(next_);
  }
  // Null: there is none.
  template <typename Handle>
  std::shared_ptr<T> Find(Handle handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(reinterpret_cast<uintptr_t>(handle));
    return found == all_.end() ? nullptr : found->second;
  }
  template <typename Handle>
  bool Remove(Handle handle) {
    const std::lock_guard lock(mutex_);
    return all_.erase(reinterpret_cast<uintptr_t>(handle)) == 1;
  }

 private:
  static constexpr uintptr_t kStep = 16;

  mutable std::mutex mutex_;
  std::map<uintptr_t, std::shared_ptr<T>> all_;
  uintptr_t next_ = 0xce11000000;  // where no memory is
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HANDLE_TABLE_H_
