// SIGTERM, SIGINT and SIGHUP as calls of a function on a thread of their own, where anything may be done.
#ifndef CELLBATCH_SERVER_SIGNALS_H_
#define CELLBATCH_SERVER_SIGNALS_H_

#include <atomic>
#include <functional>
#include <thread>

namespace cellbatch {

class StopSignals {
 public:
  // Blocks the signals for this thread and all it starts from now on: make it before any other
  // thread. `stop` is called for each signal, `again` for each SIGHUP. Also ignores SIGPIPE and SIGXFSZ.
  StopSignals(std::function<void()> stop, std::function<void()> again);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  std::atomic<bool> end_ = false;
  std::thread thread_;
};

// Ends the process with `code` if it has not ended by itself after `seconds`: the last resort
// against a library that hangs while shutting down.
void ExitAfter(int seconds, int code);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_SIGNALS_H_
