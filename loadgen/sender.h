// The open loop: each request is sent when it is due, whatever became of those before it.

#ifndef CELLBATCH_LOADGEN_SENDER_H_
#define CELLBATCH_LOADGEN_SENDER_H_

#include <atomic>
#include <cstdint>

#include "loadgen/samples.h"

namespace cellbatch {

// A clock that cannot go back, in ns. Tests bring their own.
class SendClock {
 public:
  virtual ~SendClock() = default;
  virtual int64_t Now() = 0;
  // Returns at `at_ns` or as soon after it as the machine allows; at once where it has passed.
  virtual void WaitUntil(int64_t at_ns) = 0;
};

// How long before a time one must be awake to meet it 99 times of 100, by how late sleeps have ended so far. An idle core
// wakes up late, and may spin for nothing; a busy one wakes up at once, and what a generator spins there is what the server
// beside it does not get.
class WakeMargin {
 public:
  static constexpr int64_t kFirstNs = 60'000, kLeastNs = 3'000, kMostNs = 100'000;
  int64_t ns() const { return ns_; }
  void Woke(int64_t late_ns);

 private:
  int64_t ns_ = kFirstNs;
};

// std::chrono::steady_clock; sleeps until a little before the time, then spins. One thread's.
class SteadySendClock final : public SendClock {
 public:
  int64_t Now() override;
  void WaitUntil(int64_t at_ns) override;

 private:
  WakeMargin margin_;
};

// Where requests go. Send must not wait for an answer; it says false where there is no room for
// another request in flight.
class SendTarget {
 public:
  virtual ~SendTarget() = default;
  virtual bool Send(size_t index) = 0;
};

enum class SendEnd {
  kAll,      // the whole schedule
  kNoRoom,   // the target had no room: an open loop cannot go on
  kStopped,  // `stop` was set
};

// Sends every request of the schedule, the first at start_ns + intended(0) of the clock. Blocks, but looks at `stop`
// several times a second; on the sender's own thread. Allocates nothing.
SendEnd SendOnSchedule(int64_t start_ns, Samples& samples, SendClock& clock, SendTarget& target,
                       const std::atomic<bool>& stop);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_SENDER_H_
