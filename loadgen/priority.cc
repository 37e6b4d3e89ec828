#include "loadgen/priority.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cellbatch {

ThreadPriority RaiseThisThread() {
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  sched_param parameter{};
  parameter.sched_priority = sched_get_priority_min(SCHED_FIFO);
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter) == 0) {
    return ThreadPriority::kRealtime;
  }
  // On Linux a thread has a nice value of its own.
  if (setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), -20) == 0) {
    return ThreadPriority::kRaised;
  }
  return ThreadPriority::kNormal;
}

const char* PriorityText(ThreadPriority priority) {
  switch (priority) {
    case ThreadPriority::kRealtime:
      return "realtime (SCHED_FIFO)";
    case ThreadPriority::kRaised:
      return "raised (nice -20)";
    case ThreadPriority::kNormal:
      break;
  }
  return "normal (no permission to raise it)";
}

}  // namespace cellbatch
