#include "server/http/process_stats.h"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

namespace cellbatch {

namespace {

int64_t NowNs(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// In ns since 1970, by the wall clock as it is set now: the same at each call until it is set otherwise. Of some looks at both
// clocks the one that took the shortest counts, as this thread may lose its core in between.
int64_t BootNs() {
  int64_t boot = 0, shortest = std::numeric_limits<int64_t>::max();
  for (int look = 0; look < 5; ++look) {
    const int64_t before = NowNs(CLOCK_BOOTTIME), wall = NowNs(CLOCK_REALTIME);
    const int64_t took = NowNs(CLOCK_BOOTTIME) - before;
    if (took >= shortest) continue;
    shortest = took;
    boot = wall - before;
  }
  return boot;
}

// Fields 22 to 24 of /proc/self/stat: start time, virtual size, resident pages. The second field is
// the program's name in brackets, which may contain blanks.
void ReadStat(ProcessStats& stats) {
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (!std::getline(file, line) || line.rfind(')') == line.npos) return;
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int i = 3; i < 22; ++i) fields >> skipped;
  double start_ticks = 0;
  int64_t pages = 0;
  fields >> start_ticks >> stats.virtual_bytes >> pages;
  stats.resident_bytes = pages * sysconf(_SC_PAGESIZE);
  // The system knows it to the hundredth, and who watches for restarts takes a start that moves for one.
  const double seconds =
      static_cast<double>(BootNs()) / 1e9 + start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
  stats.start_unix_seconds = std::round(seconds * 100) / 100;
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  ReadStat(stats);
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto us = [](const timeval& t) { return int64_t{t.tv_sec} * 1'000'000 + t.tv_usec; };
    stats.cpu_seconds = static_cast<double>(us(usage.ru_utime) + us(usage.ru_stime)) / 1e6;
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<int64_t>(limit.rlim_cur);
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  for (; !error && fds != std::filesystem::directory_iterator(); fds.increment(error)) {
    ++stats.open_fds;
  }
  return stats;
}

}  // namespace cellbatch
