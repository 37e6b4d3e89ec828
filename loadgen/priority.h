// The generator shares its machine with the server it measures. Its threads run for microseconds at
// a time, but must do so when they are due.

#ifndef CELLBATCH_LOADGEN_PRIORITY_H_
#define CELLBATCH_LOADGEN_PRIORITY_H_

namespace cellbatch {

enum class ThreadPriority {
  kRealtime,  // SCHED_FIFO, the lowest of its priorities: before every ordinary thread
  kRaised,    // nice -20
  // No permission for either, but short time slices: since Linux 6.12 a thread may ask for them, and
  // is run sooner when it wakes up.
  kShortSlices,
  kNormal,
};

// Raises the calling thread as far as it may be, and takes away the kernel's licence to let its
// sleeps last longer. Says what is in force now.
ThreadPriority RaiseThisThread();

const char* PriorityText(ThreadPriority priority);

}  // namespace cellbatch

#endif  // CELLBATCH_LOADGEN_PRIORITY_H_
