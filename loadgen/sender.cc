#include "loadgen/sender.h"

#include <time.h>

#include <chrono>

namespace cellbatch {
namespace {

// A sleeping thread wakes up this late at most times; the rest of the way it spins.
constexpr int64_t kSpinNs = 60'000;

}  // namespace

int64_t SteadySendClock::Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void SteadySendClock::WaitUntil(int64_t at_ns) {
  if (at_ns - Now() > kSpinNs) {
    // libstdc++'s steady clock is CLOCK_MONOTONIC.
    const int64_t wake_ns = at_ns - kSpinNs;
    const timespec wake{static_cast<time_t>(wake_ns / 1'000'000'000), wake_ns % 1'000'000'000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) != 0) {
    }
  }
  while (Now() < at_ns) {
  }
}

SendEnd SendOnSchedule(int64_t start_ns, Samples& samples, SendClock& clock, SendTarget& target,
                       const std::atomic<bool>& stop) {
  for (size_t i = 0; i < samples.size(); ++i) {
    clock.WaitUntil(start_ns + samples.intended(i));
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
