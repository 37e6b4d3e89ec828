// A thread that is kept back for when no other can be made: others of this container, or of this user, have used up what the
// system allows (pids.max, ulimit -u). Without one whoever connects then could not be served.
#ifndef CELLBATCH_SERVER_GRPC_SPARE_THREAD_H_
#define CELLBATCH_SERVER_GRPC_SPARE_THREAD_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cellbatch {

class SpareThread {
 public:
  SpareThread() : thread_([this] { Loop(); }) {}
  ~SpareThread();  // what it runs must end by then
  SpareThread(const SpareThread&) = delete;
  SpareThread& operator=(const SpareThread&) = delete;

  // False: it is busy. Any thread; never waits.
  bool Run(std::function<void()> work);

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // under the mutex, as the two below; none: it is idle
  bool busy_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_SPARE_THREAD_H_
