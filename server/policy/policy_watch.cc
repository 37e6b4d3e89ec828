#include "server/policy/policy_watch.h"

#include <pthread.h>

#include <utility>

namespace cellbatch {

PolicyWatch::PolicyWatch(std::chrono::milliseconds poll, std::function<void()> look,
                         const char* name)
    : poll_(poll), look_(std::move(look)), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name);
}

PolicyWatch::~PolicyWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void PolicyWatch::Ask() {
  {
    const std::lock_guard lock(mutex_);
    asked_ = true;
  }
  changed_.notify_all();
}

void PolicyWatch::Run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto wanted = [this] { return asked_ || stop_; };
    if (poll_.count() > 0) {
      changed_.wait_for(lock, poll_, wanted);
    } else {
      changed_.wait(lock, wanted);
    }
    if (stop_) return;
    asked_ = false;
    lock.unlock();
    look_();
    lock.lock();
  }
}

}  // namespace cellbatch
