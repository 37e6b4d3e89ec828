// What connections to the gRPC port may cost (issue 14): how many there are, and who makes room for whom.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/background_call.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

using Connections = std::vector<std::unique_ptr<TcpConnection>>;

class ConnectionsTest : public OwnServerTest {
 protected:
  Connections Idle(int count) const {
    Connections idle;
    for (int i = 0; i < count; ++i)
      idle.push_back(std::make_unique<TcpConnection>(server_->grpc()));
    return idle;
  }
  void ExpectANewClientIsAnswered() const {
    GrpcCaller caller(server_->grpc());
    ExpectGood(caller);
  }
};

TEST_F(ConnectionsTest, ANewClientTakesThePlaceOfTheLongestIdleOne) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-connections=16"}));
  const Connections idle = Idle(60);
  ExpectANewClientIsAnswered();
  EXPECT_TRUE(idle.front()->ReceiveUntilClosed());
  const MetricsPage page(*server_);
  EXPECT_LE(page.Sum("cellbatch_grpc_connections"), 16);
  EXPECT_GE(page.Sum("cellbatch_grpc_cut_total", {R"(reason="connections")"}), 60 - 16);
  EXPECT_NE(server_->Log().find("--grpc-max-connections=16"), std::string::npos);
  End();
}

TEST_F(ConnectionsTest, ACallUnderWayKeepsItsConnectionThoughAllOthersAreYounger) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-connections=16", "--batch-limit=4"}));
  GrpcCaller old(server_->grpc());
  RawAnswer answer;
  std::thread client([&] { answer = old.RawInfer(SlowRequest().SerializeAsString()); });
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Steps("slow") > 0; });
  const Connections idle = Idle(200);
  ExpectANewClientIsAnswered();
  client.join();
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  End();
}

// Whoever connected meanwhile is accepted at once, before gRPC has read what came.
TEST_F(ConnectionsTest, ACallThatCameWhileTheServerStoodStillIsAnsweredThoughManyConnectedToo) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-connections=16"}));
  for (int i = 0; i < 20; ++i) {
    ExpectGood(*caller_);
    server_->Signal(SIGSTOP);
    BackgroundCall call(*caller_, Words({1, 2, 3}));
    const Connections idle = Idle(200);
    server_->Signal(SIGCONT);
    const grpc::Status& status = call.Wait();
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  End();
}

TEST_F(ConnectionsTest, WhoHasHungUpHasNoPlaceAnyMore) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  caller_.reset();
  {
    const Connections idle = Idle(50);
    WaitForPage(*server_, [](const MetricsPage& page) {
      return page.Sum("cellbatch_grpc_connections") >= 50;
    });
  }
  WaitForPage(*server_,
              [](const MetricsPage& page) { return page.Sum("cellbatch_grpc_connections") == 0; });
  EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_grpc_cut_total"), 0);
  ExpectANewClientIsAnswered();
  End();
}

}  // namespace
}  // namespace cellbatch
