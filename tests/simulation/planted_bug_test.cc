// Linked with one mutated source of the scheduler (see mutants.bzl): the simulation must notice.
// Each seed runs in a child process, because a planted bug may as well end in a Check or a crash.
// The same seeds, shorter than in simulation_test, pass with the scheduler as it is.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {
namespace {

constexpr uint64_t kSeeds = 100;
constexpr int64_t kRequests = 400;
constexpr int kCaught = 3;
constexpr unsigned kHungSeconds = 60;  // a bug may also make a step that never ends

// Exit status of a run of this seed; what it found goes to stderr.
int RunInChild(uint64_t seed) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(kHungSeconds);
    const SimulationReport report = Simulate(RandomOptions(seed, kRequests));
    if (report.violation_count > 0) {
      std::fprintf(stderr, "%s\n", report.violations.front().c_str());
      _exit(kCaught);
    }
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(PlantedBugTest, IsCaught) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const int status = RunInChild(seed);
    if (status == 0) continue;
    const std::string how =
        WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status)) : "a violated invariant";
    std::printf("caught with seed %lu by %s\n", static_cast<unsigned long>(seed), how.c_str());
    RecordProperty("seed", static_cast<int>(seed));
    SUCCEED();
    return;
  }
  FAIL() << "the simulation noticed nothing in " << kSeeds << " runs of " << kRequests
         << " requests";
}

}  // namespace
}  // namespace cellbatch::sim
