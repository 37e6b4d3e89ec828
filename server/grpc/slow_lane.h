// What takes long, off the thread that polls a completion queue: large messages, and questions that are no probes. A queue of
// their own would poll connections with a thread more, and pollers take turns: half a wake-up and 4 us a request (benchmark
// `rpc`).
#ifndef CELLBATCH_SERVER_GRPC_SLOW_LANE_H_
#define CELLBATCH_SERVER_GRPC_SLOW_LANE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace cellbatch {

class SlowLane {
 public:
  SlowLane() : thread_([this] { Loop(); }) {}
  ~SlowLane();  // does what is left first
  SlowLane(const SlowLane&) = delete;
  SlowLane& operator=(const SlowLane&) = delete;

  // Later, on its thread, one after the other in this order. Any thread.
  void Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stop_ = false;
  std::thread thread_;  // last: it needs the others
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_SLOW_LANE_H_
