// A server that was started where few files may be open. A program of its own: who has lowered what it may raise its limit to
// cannot take that back.
#include <sys/resource.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

TEST(FewFilesTest, WhatIsShownOfConnectionsIsWhatEachPortTakesAndTheLogSaysSo) {
  constexpr rlimit kFew = {.rlim_cur = 256, .rlim_max = 256};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &kFew), 0);
  const auto server = ServerProcess::Serving(FaultRepository());
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(Metric(*server, "cellbatch_limit{name=\"grpc-max-connections\"}"), 32);
  EXPECT_EQ(Metric(*server, "cellbatch_limit{name=\"http-max-connections\"}"), 64);
  const std::string log = server->Log();
  for (const char* line :
       {"--grpc-address: 32 connections at most, not 4096: the process may open 256 files",
        "--http-address: 64 connections at most, not 4096: the process may open 256 files"}) {
    EXPECT_NE(log.find(line), std::string::npos) << line << " is not in\n" << log;
  }
}

}  // namespace
}  // namespace cellbatch
