#include "server/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

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

namespace {

volatile sig_atomic_t exit_code = 0;  // of ExitAfter

}  // namespace

// By an alarm: a thread may be what cannot be had just then, and the stop would end the process before its requests.
void ExitAfter(int seconds, int code) {
  exit_code = code;
  signal(SIGALRM, [](int) { _exit(exit_code); });
  alarm(static_cast<unsigned>(seconds));
}

}  // namespace cellbatch
