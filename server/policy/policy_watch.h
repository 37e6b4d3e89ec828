// Lets served models take over policies that changed beside them: every `poll`, and when somebody asks (SIGHUP). A thread
// of its own, which reads files and waits; requests never wait for it.
#ifndef CELLBATCH_SERVER_POLICY_POLICY_WATCH_H_
#define CELLBATCH_SERVER_POLICY_POLICY_WATCH_H_

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace cellbatch {

class PolicyWatch {
 public:
  // `look` outlives it; poll 0: only when asked. `name`: of its thread, 15 letters at most.
  PolicyWatch(std::chrono::milliseconds poll, std::function<void()> look,
              const char* name = "cb-policies");
  ~PolicyWatch();  // after the look that is under way
  // Looks soon. Any thread.
  void Ask();

 private:
  void Run();

  const std::chrono::milliseconds poll_;
  const std::function<void()> look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool asked_ = false, stop_ = false;  // under mutex_
  std::thread thread_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_POLICY_POLICY_WATCH_H_
