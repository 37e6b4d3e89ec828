#include "scheduler/loop.h"

#include <pthread.h>

#include <chrono>
#include <utility>

namespace cellbatch {
namespace {

constexpr int kLooksPerClockRead = 16;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Loop::Loop(std::string name, Body body, Doorbell& bell, Spin spin)
    : body_(std::move(body)), bell_(bell), spin_(spin), thread_([this] { Run(); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

void Loop::Stop() {
  if (!thread_.joinable()) return;
  stop_.store(true, std::memory_order_release);
  bell_.Ring();
  thread_.join();
}

// Sleeping and being woken cost far more than a short look around: about 23 us here.
bool Loop::SpinUntilWork() {
  using Clock = std::chrono::steady_clock;
  if (spin_.ns <= 0) return false;
  const auto until = Clock::now() + std::chrono::nanoseconds(spin_.ns);
  do {
    for (int i = 0; i < kLooksPerClockRead; ++i) {
      if (body_.step()) return true;
      spin_.yields ? std::this_thread::yield() : Pause();
    }
  } while (Clock::now() < until && !stop_.load(std::memory_order_acquire));
  return false;
}

void Loop::Run() {
  while (!stop_.load(std::memory_order_acquire)) {
    if (body_.step()) continue;
    if (spin_.nap_ns > 0 && body_.idle() == Body::Idle::kBusy) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(spin_.nap_ns));
      continue;
    }
    if (SpinUntilWork()) continue;
    const Body::Idle idle = body_.idle();
    if (idle == Body::Idle::kBusy) {
      Pause();
      continue;
    }
    bell_.Prepare(idle == Body::Idle::kForUrgent ? Doorbell::Sleep::kForUrgent
                                                 : Doorbell::Sleep::kForAnything);
    if (stop_.load(std::memory_order_acquire) || body_.step()) {
      bell_.Cancel();
      continue;
    }
    bell_.Wait(-1);
  }
}

}  // namespace cellbatch
