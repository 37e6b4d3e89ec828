// Programs whose stdout is a file on a full disk: what they print is lost, so they say so and do not end as if all were well.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace cellbatch {
namespace {

struct Ended {
  int exit_code = -1;
  std::string complaint;
};

Ended HelpOf(const std::string& program, const std::string& out) {
  const std::string complaints = testing::TempDir() + "/complaints";
  const int status = std::system((program + " --help >" + out + " 2>" + complaints).c_str());
  std::ifstream file(complaints);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .complaint = std::string(std::istreambuf_iterator<char>(file), {})};
}

TEST(FullStdoutTest, WhatIsLostIsNoSuccess) {
  for (const std::string name :
       {"client/cellbatch-client", "loadgen/cellbatch-loadgen", "server/cellbatch-server"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(HelpOf(name, "/dev/null").exit_code, 0);
    const Ended ended = HelpOf(name, "/dev/full");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.complaint, name.substr(name.find('/') + 1) + ": stdout cannot be written\n");
  }
}

}  // namespace
}  // namespace cellbatch
