#include "loadgen/sender.h"

#include <time.h>

#include <algorithm>
#include <chrono>

namespace cellbatch {

// Up ninety-nine times as far as down: it stands still where one sleep of a hundred ends later than it.
void WakeMargin::Woke(int64_t late_ns) {
  constexpr int64_t kDownNs = 100;
  ns_ += late_ns > ns_ ? 99 * kDownNs : -kDownNs;
  ns_ = std::clamp(ns_, kLeastNs, kMostNs);
}

int64_t SteadySendClock::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SteadySendClock::WaitUntil(int64_t at_ns) {
  if (at_ns - Now() > margin_.ns()) {
    // libstdc++'s steady clock is CLOCK_MONOTONIC.
    const int64_t wake_ns = at_ns - margin_.ns();
    const timespec wake{static_cast<time_t>(wake_ns / 1'000'000'000), wake_ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) != 0) {
    }
    margin_.Woke(Now() - wake_ns);
  }
  while (Now() < at_ns) {
  }
}

SendEnd SendOnSchedule(int64_t start_ns, Samples& samples, SendClock& clock, SendTarget& target,
                       const std::atomic<bool>& stop) {
  // How long nobody looks whether it is stopped: at one request an hour that would be an hour.
  constexpr int64_t kGlanceNs = 100'000'000;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t due_ns = start_ns + samples.intended(i);
    for (int64_t now = clock.Now(); due_ns - now > 2 * kGlanceNs && !stop; now = clock.Now()) {
      clock.WaitUntil(now + kGlanceNs);
    }
    if (!stop) clock.WaitUntil(due_ns);
    if (stop.load(std::memory_order_relaxed)) {
      return SendEnd::kStopped;
    }
    const int64_t sent_ns = clock.Now() - start_ns;
    if (!target.Send(i)) {
      return SendEnd::kNoRoom;
    }
    samples.Sent(i, sent_ns);
  }
  return SendEnd::kAll;
}

}  // namespace cellbatch
