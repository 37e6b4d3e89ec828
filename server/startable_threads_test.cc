#include "server/startable_threads.h"

#include <pthread.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

// Leaves address space for a few stacks alone.
void LeaveRoomFor(int threads, size_t stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack);
  pthread_setattr_default_np(&attributes);
  rlim_t pages = 0;  // taken
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * 4096 + static_cast<rlim_t>(threads) * stack;
  const rlimit limit = {.rlim_cur = bytes, .rlim_max = bytes};
  setrlimit(RLIMIT_AS, &limit);
}

TEST(StartableThreadsTest, AsManyAsAreAskedForOrAsThereIsRoomFor) {
  EXPECT_EQ(StartableThreads(0), 0);
  EXPECT_EQ(StartableThreads(5), 5);
  const auto in_little_room = [] {
    LeaveRoomFor(4, 16 << 20);
    const int found = StartableThreads(40);
    std::exit(found >= 1 && found <= 4 ? 0 : 1);
  };
  EXPECT_EXIT(in_little_room(), testing::ExitedWithCode(0), "");
}

TEST(StartableThreadsTest, TooFewAreALineWithBothNumbers) {
  EXPECT_TRUE(CheckThreads(kThreadsOfServer).ok());
  EXPECT_EQ(std::string(CheckThreads(12).message()),
            "12 threads can be started here, a server takes 32 (ulimit -u, pids.max of its control "
            "group, ulimit -v)");
}

}  // namespace
}  // namespace cellbatch
