#include "server/grpc/spare_thread.h"

#include <utility>

namespace cellbatch {

SpareThread::~SpareThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool SpareThread::Run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (busy_) return false;
    busy_ = true;
    work_ = std::move(work);
  }
  changed_.notify_all();
  return true;
}

void SpareThread::Loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return busy_ || ending_; });
    if (!busy_) return;
    const std::function<void()> work = std::exchange(work_, nullptr);
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
  }
}

}  // namespace cellbatch
