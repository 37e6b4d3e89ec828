// What was found, a line each, of all GPUs and of whoever else looks. Any thread. At most kMost are kept, the oldest.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_FINDING_LIST_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_FINDING_LIST_H_

#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace cellbatch::emulator {

class FindingList {
 public:
  static constexpr size_t kMost = 1000;

  void Add(std::string what) {
    const std::lock_guard lock(mutex_);
    if (all_.size() < kMost) all_.push_back(std::move(what));
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return all_.size();
  }
  std::string At(size_t i) const {  // empty: there is none
    const std::lock_guard lock(mutex_);
    return i < all_.size() ? all_[i] : std::string();
  }
  void Clear() {
    const std::lock_guard lock(mutex_);
    all_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> all_;
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_FINDING_LIST_H_
