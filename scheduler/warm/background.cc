#include "scheduler/warm/background.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <exception>
#include <system_error>
#include <thread>

namespace cellbatch {
namespace {

constexpr int kNice = 10;  // a weight of 110 where others have 1024

}  // namespace

// What `work` throws is the caller's to catch: a load for which there is no memory left is no end of those that are served.
void RunInBackground(absl::FunctionRef<void()> work) {
  std::thread thread;
  std::exception_ptr thrown;
  const auto yielding = [&] {
    pthread_setname_np(pthread_self(), "cb-load");
    const sched_param no_priority = {};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &no_priority);
    // Of this thread: Linux keeps niceness by thread. A server that is nicer already stays so: root could make it less nice.
    const auto thread_id = static_cast<id_t>(syscall(SYS_gettid));
    if (getpriority(PRIO_PROCESS, thread_id) < kNice) setpriority(PRIO_PROCESS, thread_id, kNice);
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
  };
  try {
    thread = std::thread(yielding);
  } catch (const std::system_error&) {
    return work();
  }
  thread.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace cellbatch
