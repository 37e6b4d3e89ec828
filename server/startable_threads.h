// How many threads may still be started here. What limits them lies in many places (ulimit -u of all of a user's processes,
// pids.max of every group above, room for stacks), so it is tried. Where there are too few a server would end in the middle of
// its start without a word, or, worse, wait for one of a library's threads that never came.
#ifndef CELLBATCH_SERVER_STARTABLE_THREADS_H_
#define CELLBATCH_SERVER_STARTABLE_THREADS_H_

#include "absl/status/status.h"

namespace cellbatch {

// Starts up to `most` threads that do nothing, all at once, and ends them: how many there were.
int StartableThreads(int most);

// A server takes so many, on few cores: 26 were seen on one, and gRPC starts some more when it needs them.
inline constexpr int kThreadsOfServer = 32;
// A line that names both numbers, where fewer can be started.
absl::Status CheckThreads(int startable);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_STARTABLE_THREADS_H_
