#include "server/lifecycle.h"

#include <algorithm>
#include <utility>

namespace cellbatch {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLookEvery{2};
constexpr std::chrono::milliseconds kHealthEvery{100};

}  // namespace

const char* Name(ServerPhase phase) {
  switch (phase) {
    case ServerPhase::kStarting:
      return "starting";
    case ServerPhase::kServing:
      return "serving";
    case ServerPhase::kDraining:
      return "draining";
    case ServerPhase::kStopped:
      return "stopped";
  }
  return "unknown";
}

void Lifecycle::AddListener(std::function<void(bool)> listener) {
  const std::lock_guard lock(mutex_);
  listener(ready_.load());
  listeners_.push_back(std::move(listener));
}

// Under the mutex: the change, and what follows from it.
void Lifecycle::Change(const std::function<void()>& change) {
  change();
  const bool ready = phase_ == ServerPhase::kServing && healthy_;
  if (ready != ready_.exchange(ready, std::memory_order_acq_rel)) {
    for (const auto& listener : listeners_) listener(ready);
  }
  changed_.notify_all();
}

bool Lifecycle::Serve() {
  const std::lock_guard lock(mutex_);
  if (phase_ != ServerPhase::kStarting) return false;
  Change([&] {
    phase_ = ServerPhase::kServing;
    served_ = true;
  });
  return true;
}

void Lifecycle::SetHealthy(bool healthy) {
  const std::lock_guard lock(mutex_);
  if (healthy == healthy_) return;
  Change([&] { healthy_ = healthy; });
}

ServerPhase Lifecycle::RequestStop() {
  const std::lock_guard lock(mutex_);
  const ServerPhase before = phase_;
  Change([&] {
    ++stops_;
    phase_ = std::max(phase_, ServerPhase::kDraining);
  });
  return before;
}

ServerPhase Lifecycle::phase() const {
  const std::lock_guard lock(mutex_);
  return phase_;
}

bool Lifecycle::served() const {
  const std::lock_guard lock(mutex_);
  return served_;
}

void Lifecycle::WaitForStop(const std::function<bool()>& healthy) {
  std::unique_lock lock(mutex_);
  while (stops_ == 0) {
    changed_.wait_for(lock, kHealthEvery, [&] { return stops_ > 0; });
    if (!healthy || stops_ > 0) continue;
    lock.unlock();
    SetHealthy(healthy());
    lock.lock();
  }
}

// Until `end`, or more than `stops` requests to stop, or nothing is in flight (then true).
bool Lifecycle::WaitUntil(std::unique_lock<std::mutex>& lock, Clock::time_point end, int stops,
                          const std::function<int64_t()>& in_flight) {
  while (true) {
    if (in_flight && in_flight() == 0) return true;
    if (stops_ > stops || Clock::now() >= end) return false;
    changed_.wait_until(lock, in_flight ? std::min(end, Clock::now() + kLookEvery) : end);
  }
}

bool Lifecycle::Drain(const DrainLimits& limits, const DrainSteps& steps) {
  std::unique_lock lock(mutex_);
  if (served_) WaitUntil(lock, Clock::now() + limits.delay, 1, nullptr);
  steps.refuse_new();
  if (WaitUntil(lock, Clock::now() + limits.timeout, 2, steps.in_flight)) return true;
  lock.unlock();
  steps.answer_the_rest();
  lock.lock();
  WaitUntil(lock, Clock::now() + kLastAnswers, 1 << 30, steps.in_flight);
  return false;
}

void Lifecycle::Stopped() {
  const std::lock_guard lock(mutex_);
  Change([&] { phase_ = ServerPhase::kStopped; });
}

}  // namespace cellbatch
