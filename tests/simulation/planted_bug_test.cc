// Linked with one mutated source of the scheduler (see mutants.bzl): the simulation must notice, and what it sees
// first must be what the mutant's text names. Each seed runs in a child process, because a planted bug may as well
// end in a failed check of the scheduler's own (which the mutant's text then names, too), in a crash or in a loop
// without end (both of which are failures of this test: they say nothing about why).
//
// The control is the same binary with its sources as they are: nothing may be noticed in any seed.
#include "tests/simulation/planted_bug.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulation.h"

namespace cellbatch::sim {
namespace {

constexpr uint64_t kSeeds = 100;
constexpr int64_t kRequests = 400;
constexpr unsigned kHungSeconds = 120;  // a bug may also make a step that never ends
constexpr std::string_view kViolated = "violated: ", kCheck = "check failed: ";

enum class End { kClean, kViolation, kCheck, kOther };

// How a run of a seed ended, and what it saw first.
struct Seen {
  End end = End::kClean;
  std::string what;
};

[[noreturn]] void RunAndReport(uint64_t seed, int report_to) {
  alarm(kHungSeconds);
  dup2(report_to, STDERR_FILENO);  // where failed checks speak
  const SimulationReport report = Simulate(WithUnfolding(RandomOptions(seed, kRequests)));
  if (report.violation_count > 0) {
    std::fprintf(stderr, "%s%s\n", std::string(kViolated).c_str(),
                 report.violations.front().c_str());
  }
  std::fflush(nullptr);
  _exit(0);
}

std::string ReadAll(int from) {
  std::string all;
  std::array<char, 4096> some;
  for (;;) {
    const ssize_t n = read(from, some.data(), some.size());
    if (n <= 0) return all;
    all.append(some.data(), static_cast<size_t>(n));
  }
}

std::string LineAfter(const std::string& all, std::string_view prefix) {
  const size_t at = all.find(prefix);
  if (at == std::string::npos) return "";
  const size_t begin = at + prefix.size();
  return all.substr(begin, all.find('\n', begin) - begin);
}

Seen RunInChild(uint64_t seed) {
  std::fflush(nullptr);
  std::array<int, 2> ends;
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) RunAndReport(seed, ends[1]);
  close(ends[1]);
  const std::string all = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  const std::string violation = LineAfter(all, kViolated), check = LineAfter(all, kCheck);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return violation.empty() ? Seen{} : Seen{End::kViolation, violation};
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && !check.empty()) {
    return {End::kCheck, check};
  }
  return {End::kOther, WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status), " ", all)
                                           : absl::StrCat("exit status ", WEXITSTATUS(status))};
}

bool IsExpected(const std::string& what) {
  const std::vector<std::string_view> expected = WhatMustNotice();
  return std::any_of(expected.begin(), expected.end(),
                     [&](std::string_view text) { return what.find(text) != std::string::npos; });
}

TEST(PlantedBugTest, TheSimulationSeesFirstWhatTheTextNamesAndNothingWhereNothingIsPlanted) {
  const bool is_control = WhatMustNotice().empty();
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Seen seen = RunInChild(seed);
    if (seen.end == End::kClean) continue;
    ASSERT_FALSE(is_control) << "seed " << seed << " saw " << seen.what;
    EXPECT_NE(seen.end, End::kOther) << "seed " << seed << " ended by " << seen.what;
    EXPECT_TRUE(IsExpected(seen.what)) << "seed " << seed << " saw something else: " << seen.what;
    std::printf("seed %lu: %s\n", static_cast<unsigned long>(seed), seen.what.c_str());
    return;
  }
  EXPECT_TRUE(is_control) << "nothing was noticed in " << kSeeds << " runs of " << kRequests
                          << " requests";
}

}  // namespace
}  // namespace cellbatch::sim
