// What the operating system says of this process (Prometheus' standard process_* set). Linux; any
// thread; tens of microseconds.
#ifndef CELLBATCH_SERVER_HTTP_PROCESS_STATS_H_
#define CELLBATCH_SERVER_HTTP_PROCESS_STATS_H_

#include <cstdint>

namespace cellbatch {

struct ProcessStats {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  double start_unix_seconds = 0;  // whole hundredths; it moves with the wall clock
};

// Zeroes where /proc cannot be read.
ProcessStats ReadProcessStats();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_PROCESS_STATS_H_
