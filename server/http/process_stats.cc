#include "server/http/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace cellbatch {

namespace {

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

  std::ifstream uptime("/proc/uptime");
  double up_seconds = 0;
  if (!(uptime >> up_seconds)) return;
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  stats.start_unix_seconds =
      now - up_seconds + start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  ReadStat(stats);
  rusage usage = {};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    stats.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
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
