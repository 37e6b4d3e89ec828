// A server whose files are all taken by idle connections of gRPC (issue 14). Apart from slow_http_test, for not under ASan:
// UBSan opens a pipe to look at an object, and takes it for none when it cannot.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

// What gRPC's clients hold is not ours to take back; what probes need was kept from them.
TEST(FilesTakenTest, ProbesAreAnsweredWhenOthersHaveTakenEveryFile) {
  const auto server = ServerProcess::Serving(FaultRepository());
  ASSERT_NE(server, nullptr);
  constexpr size_t kFiles = 512;
  server->LimitFiles(kFiles);
  std::vector<std::unique_ptr<TcpConnection>> idle;
  for (int i = 0; i < 700; ++i) idle.push_back(std::make_unique<TcpConnection>(server->grpc()));
  while (server->OpenFiles() < kFiles) std::this_thread::yield();
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(HttpGet(server->http(), "/v2/health/live"), "200 live\n") << i;
    ASSERT_EQ(HttpGet(server->http(), "/v2/health/ready"), "200 ready\n") << i;
  }
  EXPECT_NE(server->Log().find("files that the process may open are open"), std::string::npos);
}

}  // namespace
}  // namespace cellbatch
