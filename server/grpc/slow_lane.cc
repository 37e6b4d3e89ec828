#include "server/grpc/slow_lane.h"

#include <pthread.h>

#include <utility>

namespace cellbatch {

SlowLane::~SlowLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

SlowLane::Room SlowLane::TryRun(int64_t bytes, std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (calls_ >= limits_.max_calls) return Room::kNoCalls;
    if (calls_ > 0 && bytes > limits_.max_bytes - bytes_) return Room::kNoBytes;
    Add({std::move(work), 1, bytes});
  }
  wake_.notify_one();
  return Room::kYes;
}

void SlowLane::Run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    Add({std::move(work), 0, 0});
  }
  wake_.notify_one();
}

// With the lock.
void SlowLane::Add(Work work) {
  calls_ += work.calls;
  bytes_ += work.bytes;
  waiting_.push_back(std::move(work));
}

int32_t SlowLane::RetryMs() {
  int64_t wait_ns = 0;
  {
    const std::lock_guard lock(mutex_);
    wait_ns = calls_ * call_ns_;
  }
  return hint_.Spread(wait_ns / 1'000'000);
}

void SlowLane::Loop() {
  constexpr int64_t kOfTheNewest = 8;  // its share in what a call takes
  pthread_setname_np(pthread_self(), "cb-slow");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Work work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const int64_t begun_ns = clock_.NowNs();
    work.run();
    const int64_t took_ns = clock_.NowNs() - begun_ns;
    lock.lock();
    calls_ -= work.calls;
    bytes_ -= work.bytes;
    if (work.calls > 0) call_ns_ += (took_ns - call_ns_) / kOfTheNewest;
  }
}

}  // namespace cellbatch
