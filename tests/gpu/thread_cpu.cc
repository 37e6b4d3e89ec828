#include "tests/gpu/thread_cpu.h"

#include <time.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace cellbatch {
namespace {

// As pthread_getcpuclockid makes it, from a thread's number in the system.
clockid_t ClockOf(long thread) { return static_cast<clockid_t>(~thread) * 8 + 6; }

}  // namespace

std::optional<int64_t> ThreadCpuNs(std::string_view name) {
  std::optional<int64_t> sum;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string called;
    std::getline(std::ifstream(folder.path() / "comm"), called);
    if (!called.starts_with(name)) continue;
    timespec spent;
    const long thread = std::atol(folder.path().filename().c_str());
    if (clock_gettime(ClockOf(thread), &spent) != 0) continue;
    sum = sum.value_or(0) + int64_t{spent.tv_sec} * 1'000'000'000 + spent.tv_nsec;
  }
  return sum;
}

}  // namespace cellbatch
