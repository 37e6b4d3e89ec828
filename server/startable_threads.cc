#include "server/startable_threads.h"

#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "fmt/format.h"

namespace cellbatch {

int StartableThreads(int most) {
  std::latch end(1);
  std::vector<std::jthread> threads;
  try {
    while (static_cast<int>(threads.size()) < most) threads.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error&) {
    // So many, then.
  }
  end.count_down();
  return static_cast<int>(threads.size());
}

absl::Status CheckThreads(int startable) {
  if (startable >= kThreadsOfServer) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{} threads can be started here, a server takes {} (ulimit -u, pids.max of its "
                  "control group, ulimit -v)",
                  startable, kThreadsOfServer));
}

}  // namespace cellbatch
