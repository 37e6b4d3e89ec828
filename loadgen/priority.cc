#include "loadgen/priority.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace cellbatch {
namespace {

constexpr uint64_t kSliceNs = 100'000;

// The kernel's struct sched_attr, which glibc has no header for yet.
struct SchedulingAttributes {
  uint32_t size = sizeof(SchedulingAttributes);
  uint32_t policy = SCHED_OTHER;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0;
  uint64_t deadline = 0;
  uint64_t period = 0;
};

bool AskForShortSlices() {
  SchedulingAttributes attributes;
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
  attributes.runtime = kSliceNs;
  if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0) {
    return false;
  }
  // Older kernels accept the value and forget it.
  SchedulingAttributes in_force;
  return syscall(SYS_sched_getattr, 0, &in_force, sizeof(in_force), 0) == 0 &&
         in_force.runtime == kSliceNs;
}

}  // namespace

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
  return AskForShortSlices() ? ThreadPriority::kShortSlices : ThreadPriority::kNormal;
}

const char* PriorityText(ThreadPriority priority) {
  switch (priority) {
    case ThreadPriority::kRealtime:
      return "realtime (SCHED_FIFO)";
    case ThreadPriority::kRaised:
      return "raised (nice -20)";
    case ThreadPriority::kShortSlices:
      return "normal, with short slices (no permission for more)";
    case ThreadPriority::kNormal:
      break;
  }
  return "normal (no permission to raise it)";
}

}  // namespace cellbatch
