// Which pinned memory GPUs write: so that who finds that the source of a copy has changed knows whether it was the host. By blocks
// of the registry. Any thread; a lock and a map each, so that whoever writes much tells once.
#ifndef CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HOST_WRITES_H_
#define CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HOST_WRITES_H_

#include <cstdint>
#include <map>
#include <mutex>

namespace cellbatch::emulator {

class HostWrites {
 public:
  // What is known of a block at some time: writes that had begun, and whether one was in progress.
  struct Seen {
    uint64_t begun = 0;
    bool busy = false;
  };

  void Begins(int64_t block) {
    const std::lock_guard lock(mutex_);
    ++blocks_[block].begun;
  }
  void Ends(int64_t block) {
    const std::lock_guard lock(mutex_);
    ++blocks_[block].ended;
  }
  Seen Of(int64_t block) const {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(block);
    if (found == blocks_.end()) return {};
    return {found->second.begun, found->second.begun != found->second.ended};
  }

 private:
  struct Writes {
    uint64_t begun = 0, ended = 0;
  };
  mutable std::mutex mutex_;
  std::map<int64_t, Writes> blocks_;  // by number
};

}  // namespace cellbatch::emulator

#endif  // CELLBATCH_TESTS_CUDA_EMULATOR_DRIVER_HOST_WRITES_H_
