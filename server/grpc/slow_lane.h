// What takes long, off the thread that polls a completion queue: large messages, and questions that
// are no probes. A queue of their own would poll connections with a thread more, and pollers take
// turns: half a wake-up and 4 us a request (benchmark `rpc`).
//
// What waits here holds its message and is admitted nowhere yet, so the lane is bounded by itself:
// by calls, and by the bytes of their messages. Full is an answer, never a wait.
#ifndef CELLBATCH_SERVER_GRPC_SLOW_LANE_H_
#define CELLBATCH_SERVER_GRPC_SLOW_LANE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "scheduler/clock.h"
#include "server/requests/retry_hint.h"

namespace cellbatch {

struct SlowLimits {
  int64_t max_calls = 1024;
  int64_t max_bytes = 256 << 20;  // one alone may have more: it is bounded by itself
};

class SlowLane {
 public:
  // `clock` outlives it.
  SlowLane(const SlowLimits& limits, const Clock& clock)
      : limits_(limits), clock_(clock), thread_([this] { Loop(); }) {}
  ~SlowLane();  // does what is left first
  SlowLane(const SlowLane&) = delete;
  SlowLane& operator=(const SlowLane&) = delete;

  enum class Room : uint8_t { kYes, kNoCalls, kNoBytes };
  // Later, on its thread, one after the other in this order; until it is done it counts as a call
  // of so many bytes. Without room it is not taken. Any thread.
  Room TryRun(int64_t bytes, std::function<void()> work);
  // The same, whatever else waits: what calls that were taken have left to do. Any thread.
  void Run(std::function<void()> work);

  // When to come back, in milliseconds, from how long calls took lately.
  int32_t RetryMs();
  const SlowLimits& limits() const { return limits_; }

 private:
  struct Work {
    std::function<void()> run;
    int64_t calls, bytes;
  };

  void Add(Work work);
  void Loop();

  const SlowLimits limits_;
  const Clock& clock_;
  RetryHint hint_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> waiting_;
  int64_t calls_ = 0, bytes_ = 0;  // waiting, or under way
  int64_t call_ns_ = 0;            // what one takes: the last few
  bool stop_ = false;
  std::thread thread_;  // last: it needs the others
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_SLOW_LANE_H_
