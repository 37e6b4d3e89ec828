// Peers that are gone without a word (serving.md 4.4, P12), against the real server with keepalive on: what a broken
// network leaves behind is a connection on which nothing is answered any more. HTTP/2 by hand plays that peer: its
// kernel still takes every byte, and nobody answers a ping.
#include <csignal>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

class HalfOpenTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string repository = NewRepository();
    AddModel(repository, kWords);
    AddModel(repository, kSlow);
    server_ = ServerProcess::Serving(
        repository, {"--devices=cpu:0", "--batch-limit=4", "--grpc-keepalive-time=200ms",
                     "--grpc-keepalive-timeout=2s"});
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    const double cells = WaitUntilEmpty(*server_).Cells("slow");
    {
      GrpcCaller caller(server_->grpc());
      ExpectGood(caller);
    }
    EXPECT_EQ(MetricsPage(*server_).Cells("slow"), cells);
    server_->Signal(SIGTERM);
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  }

  std::unique_ptr<ServerProcess> server_;
};

TEST_F(HalfOpenTest, P12ACallOfAPeerThatIsGoneIsCancelledAndItsConnectionClosed) {
  TcpConnection peer(server_->grpc());
  ASSERT_TRUE(peer.Send(http2::Greeting() + http2::Infer(1, SlowRequest().SerializeAsString())));
  WaitForPage(*server_, [](const MetricsPage& page) { return page.Steps("slow") > 0; });
  EXPECT_TRUE(peer.ReceiveUntilClosed());
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_LT(page.Steps("slow"), kSlowSteps);
  EXPECT_EQ(page.Ended("cancelled"), 1);
  EXPECT_EQ(page.Ended(), 1);
}

TEST_F(HalfOpenTest, P12APeerThatIsGoneBetweenCallsIsHungUpOn) {
  TcpConnection peer(server_->grpc());
  ASSERT_TRUE(peer.Send(http2::Greeting() + http2::Infer(1, Words({1, 2, 3}).SerializeAsString())));
  EXPECT_TRUE(peer.ReceiveUntilClosed());
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Ended("ok"), 1);
  EXPECT_EQ(page.Ended(), 1);
}

// With a call under way, and without: the answered pings buy their own time and no more.
TEST_F(HalfOpenTest, P12APeerThatAnsweredManyPingsAndThenIsGoneIsHungUpOn) {
  for (const auto& request : {SlowRequest(), Words({1, 2, 3})}) {
    TcpConnection peer(server_->grpc());
    ASSERT_TRUE(peer.Send(http2::Greeting() + http2::Infer(1, request.SerializeAsString())));
    http2::FrameReader frames(peer);
    constexpr int kAnswered = 5;
    for (int pings = 0; pings < kAnswered;) {
      const auto frame = frames.Next();
      ASSERT_TRUE(frame.has_value())
          << request.model_name() << ": hung up on, or not pinged, after " << pings << " pings";
      if (frame->type != http2::kPing || (frame->flags & http2::kAck) != 0) continue;
      ASSERT_TRUE(peer.Send(http2::Frame(http2::kPing, http2::kAck, 0, frame->body)));
      ++pings;
    }
    EXPECT_TRUE(peer.ReceiveUntilClosed()) << request.model_name();
    const MetricsPage page = WaitUntilEmpty(*server_);
    EXPECT_LT(page.Steps("slow"), kSlowSteps);
    EXPECT_EQ(page.Ended("cancelled"), 1);
  }
  EXPECT_EQ(MetricsPage(*server_).Ended("ok"), 1);
  EXPECT_EQ(MetricsPage(*server_).Ended(), 2);
}

}  // namespace
}  // namespace cellbatch
