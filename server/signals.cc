#include "server/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace cellbatch {

StopSignals::StopSignals(std::function<void()> stop, std::function<void()> again) {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of its write, as on a full disk
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this, signals, stop = std::move(stop), again = std::move(again)] {
    while (true) {
      int received = 0;
      if (sigwait(&signals, &received) != 0) continue;
      if (end_.load()) return;
      received == SIGHUP ? again() : stop();
    }
  });
}

StopSignals::~StopSignals() {
  end_.store(true);
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void ExitAfter(int seconds, int code) {
  std::thread([seconds, code] {
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    _exit(code);
  }).detach();
}

}  // namespace cellbatch
