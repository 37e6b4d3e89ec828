// A server of whose files idle connections would take all (issue 14). Apart from slow_http_test, for not under ASan:
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

constexpr size_t kFiles = 512;
constexpr int kIdle = 700;

class FilesTakenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Serving(FaultRepository());
    ASSERT_NE(server_, nullptr);
    server_->LimitFiles(kFiles);
  }
  void Connect(const std::string& address) {
    for (int i = 0; i < kIdle; ++i) idle_.push_back(std::make_unique<TcpConnection>(address));
  }
  void ExpectProbesAreAnswered() const {
    for (int i = 0; i < 40; ++i) {
      ASSERT_EQ(HttpGet(server_->http(), "/v2/health/live"), kLiveAnswer) << i;
      ASSERT_EQ(HttpGet(server_->http(), "/v2/health/ready"), kReadyAnswer) << i;
    }
  }
  // Each on a connection of its own.
  void ExpectNewClientsAreAnswered() const {
    for (int i = 0; i < 8; ++i) {
      GrpcCaller caller(server_->grpc());
      ASSERT_NO_FATAL_FAILURE(ExpectGood(caller)) << i;
    }
  }

  std::unique_ptr<ServerProcess> server_;
  std::vector<std::unique_ptr<TcpConnection>> idle_;
};

TEST_F(FilesTakenTest, IdleConnectionsOfGrpcLeaveFilesForNewClientsAndForProbes) {
  Connect(server_->grpc());
  ExpectNewClientsAreAnswered();
  ExpectProbesAreAnswered();
  EXPECT_LT(server_->OpenFiles(), kFiles);
  EXPECT_NE(server_->Log().find("--grpc-max-connections=4096, and 512 files may be open"),
            std::string::npos);
}

// What others hold is not ours to take back; what probes and new clients need was kept from them.
TEST_F(FilesTakenTest, ProbesAndNewClientsAreAnsweredWhenOthersHaveTakenEveryFile) {
  Connect(server_->http());
  while (server_->Log().find("files that the process may open are open") == std::string::npos) {
    std::this_thread::yield();
  }
  ExpectProbesAreAnswered();
  ExpectNewClientsAreAnswered();
}

}  // namespace
}  // namespace cellbatch
