// Deadlines of requests that were submitted and of pieces that wait for their turn, and the thread that says when one has
// passed. The scheduler reads no clock: a deadline is news from here.
//
//   DeadlineHeap    the earliest first; pure
//   DeadlineTimer   a heap, a mutex and a thread that sleeps until the earliest
//
// An entry lives inside what it times and knows its own place, so adding and removing neither
// allocate (beyond the heap's own growth) nor search: O(log n) under an uncontended mutex.
#ifndef CELLBATCH_SERVER_REQUESTS_DEADLINES_H_
#define CELLBATCH_SERVER_REQUESTS_DEADLINES_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "scheduler/clock.h"
#include "scheduler/request.h"
#include "server/requests/wait_id.h"

namespace cellbatch {

using TimedId = std::variant<RequestId, WaitId>;

struct DeadlineEntry {
  int64_t deadline_ns = 0;
  TimedId whose;
  int32_t place = -1;  // in the heap; -1: not in it
};

class DeadlineHeap {
 public:
  void Add(DeadlineEntry& entry);
  void Remove(DeadlineEntry& entry);  // nothing, if it is not in it
  DeadlineEntry* earliest() const { return heap_.empty() ? nullptr : heap_.front(); }
  size_t size() const { return heap_.size(); }

 private:
  void Put(size_t place, DeadlineEntry* entry);
  void SiftUp(size_t place);
  void SiftDown(size_t place);
  std::vector<DeadlineEntry*> heap_;
};

class DeadlineTimer {
 public:
  // `expired` is called on the timer's thread, without its mutex.
  DeadlineTimer(const Clock& clock, std::function<void(TimedId)> expired);
  ~DeadlineTimer();
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  void Add(DeadlineEntry& entry);     // any thread
  void Remove(DeadlineEntry& entry);  // any thread; afterwards the entry is not touched again

  // Tells of everything that has passed; returns how many. The thread's step, and tests'.
  int ExpireUntil(int64_t now_ns);

 private:
  void Loop();

  const Clock& clock_;
  const std::function<void(TimedId)> expired_;
  std::mutex mutex_;
  std::condition_variable wake_;
  DeadlineHeap heap_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_DEADLINES_H_
