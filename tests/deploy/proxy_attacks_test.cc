// What HAProxy with the shipped configuration keeps from the server (deploy/proxy). Strangers have addresses of their own,
// and beside them and after them a client of another address has its answers with the same bits. Each test fails without
// the line of the configuration that deploy/proxy/README.md names beside it.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/deploy/proxy_process.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/http2_by_hand.h"

namespace cellbatch {
namespace {

constexpr const char* kStranger = "127.0.0.66";
constexpr int64_t kMostBytes = 64 << 20;  // that the server may have more at any time of an attack

// Of the whole connection.
std::string WideWindow() {
  return http2::Frame(http2::kWindowUpdate, http2::kNone, 0, http2::BigEndian(1 << 30, 4));
}

using Connections = std::vector<std::unique_ptr<TcpConnection>>;

class ProxyAttackTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = FaultRepository();
    AddModel(repository, kSlow);
    ASSERT_NO_FATAL_FAILURE(Serve(repository, {"--devices=cpu:0"}));
  }
  void SetUp() override {
    proxy_ = std::make_unique<ProxyProcess>(*server_);
    honest_ = std::make_unique<GrpcCaller>(proxy_->grpc());
    ExpectGood(*honest_);
    bytes_before_ = server_->PeakResidentBytes();
    ended_before_ = MetricsPage(*server_).Ended();
  }
  void TearDown() override {
    ExpectGood(*honest_);
    EXPECT_LT(server_->PeakResidentBytes() - bytes_before_, kMostBytes);
    honest_.reset();
    proxy_.reset();
    FaultTest::TearDown();
  }
  TcpConnection& Stranger(const std::string& bytes, const std::string& address = kStranger) {
    strangers_.push_back(std::make_unique<TcpConnection>(proxy_->grpc(), address));
    EXPECT_TRUE(strangers_.back()->connected());
    strangers_.back()->Send(bytes);
    return *strangers_.back();
  }
  // The calls of others that the server has seen since the test began, answered or not.
  double SeenByServer() const { return WaitUntilEmpty(*server_).Ended() - ended_before_; }

  std::unique_ptr<ProxyProcess> proxy_;
  std::unique_ptr<GrpcCaller> honest_;
  Connections strangers_;
  int64_t bytes_before_ = 0;
  double ended_before_ = 0;
};

// A head in frames of this body, the last of which ends it, and a message behind it.
std::string LongHead(const std::string& body, int frames) {
  std::string sent = http2::Greeting() + http2::InferHeaders(1, {}, http2::kNone);
  for (int i = 1; i <= frames; ++i) {
    sent += http2::Frame(http2::kContinuation, i == frames ? http2::kEndHeaders : http2::kNone, 1,
                         body);
  }
  return sent + http2::Frame(http2::kData, http2::kEndStream, 1,
                             http2::Message(Words({1, 2, 3}).SerializeAsString()));
}

TEST_F(ProxyAttackTest, HeadsThatAreTooLongNeverReachTheServer) {
  std::string kilobyte, nothing;
  for (int i = 0; i < 8; ++i) kilobyte += http2::Header("name", std::string(120, 'v'));
  for (int i = 0; i < 1000; ++i) nothing += http2::Header("x", "");
  EXPECT_TRUE(Stranger(LongHead(kilobyte, 70)).ReceiveUntilClosed());
  EXPECT_TRUE(Stranger(LongHead(nothing, 4)).ReceiveUntilClosed());
  EXPECT_TRUE(Stranger(LongHead(nothing.substr(0, nothing.size() / 5), 1)).ReceiveUntilClosed());
  EXPECT_TRUE(Stranger(LongHead(kilobyte, 100'000)).ReceiveUntilClosed());
  EXPECT_EQ(SeenByServer(), 0);
}

// Nobody has to hang up on these: they cost nothing but the bytes they are.
TEST_F(ProxyAttackTest, EmptyContinuationsWithoutEndCostNoMemory) {
  std::string empty;
  for (int i = 0; i < 1000; ++i) empty += http2::Frame(http2::kContinuation, http2::kNone, 1, "");
  TcpConnection& stranger = Stranger(http2::Greeting() + http2::InferHeaders(1, {}, http2::kNone));
  ExpectGood(*honest_);
  const int64_t before = proxy_->PeakResidentBytes();
  for (int i = 0; i < 1000 && stranger.Send(empty); ++i) {
  }
  ExpectGood(*honest_);
  EXPECT_LT(proxy_->PeakResidentBytes() - before, kMostBytes);
  EXPECT_EQ(SeenByServer(), 2) << "the honest client's";
}

TEST_F(ProxyAttackTest, OneAddressHasAHundredConnectionsAndOthersStillGetOne) {
  constexpr int kTries = 300, kMost = 100;
  for (int i = 0; i < kTries; ++i) Stranger(http2::Greeting());
  int kept = 0;
  for (const auto& stranger : strangers_) kept += stranger->Receive().empty() ? 0 : 1;
  EXPECT_EQ(kept, kMost);
  GrpcCaller another(proxy_->grpc());
  ExpectGood(another);
  EXPECT_LT(server_->OpenFiles(), 100u) << "of them, none is connected to the server";
}

TEST_F(ProxyAttackTest, CallsBeyondAHundredOfAConnectionAreRefusedAtOnce) {
  constexpr uint32_t kCalls = 20'000, kMost = 100;
  std::string calls = http2::Greeting();
  for (uint32_t i = 0; i < kCalls; ++i) calls += http2::InferHeaders(2 * i + 1);
  TcpConnection& stranger = Stranger(calls);
  http2::FrameReader frames(stranger);
  uint32_t refused = 0;
  while (refused < kCalls - kMost) {
    const auto frame = frames.Next();
    ASSERT_TRUE(frame.has_value()) << "after " << refused;
    if (frame->type != http2::kRstStream) continue;
    EXPECT_GT(frame->stream, 2 * kMost - 1);
    EXPECT_EQ(frame->body, http2::BigEndian(7, 4)) << "REFUSED_STREAM";
    ++refused;
  }
  EXPECT_EQ(SeenByServer(), 0);
}

// Whole calls, so that nothing but their rate keeps them from the server; most are reset before it has them.
TEST_F(ProxyAttackTest, CallsThatAreOpenedAndResetReachTheServerNoFasterThanOneAddressMay) {
  constexpr int kConnections = 4, kRate = 2000;
  constexpr uint32_t kCalls = 25'000;
  const std::string body = Words({1, 2, 3}).SerializeAsString();
  const auto begin = std::chrono::steady_clock::now();
  for (int c = 0; c < kConnections; ++c) {
    TcpConnection& stranger = Stranger(http2::Greeting());
    for (uint32_t stream = 1; stream < 2 * kCalls; stream += 2) {
      const std::string call =
          http2::Infer(stream, body) +
          http2::Frame(http2::kRstStream, http2::kNone, stream, http2::BigEndian(8, 4));  // CANCEL
      if (!stranger.Send(call)) break;
    }
    ExpectGood(*honest_);
  }
  const double seen = SeenByServer() - kConnections;
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(seen, kRate * (took.count() + 1));
}

TEST_F(ProxyAttackTest, CallsBeyondTheRateOfAnAddressAreRefusedAndOthersAreServed) {
  constexpr int kAtOnce = 50;
  TcpConnection& stranger = Stranger(http2::Greeting() + WideWindow());
  http2::FrameReader frames(stranger);
  const std::string body = Words({1}).SerializeAsString();
  bool refused = false;
  for (uint32_t stream = 1; !refused;) {
    std::string calls;
    for (int i = 0; i < kAtOnce; ++i, stream += 2) calls += http2::Infer(stream, body);
    ASSERT_TRUE(stranger.Send(calls));
    for (int ended = 0; ended < kAtOnce;) {
      const auto frame = frames.Next();
      ASSERT_TRUE(frame.has_value());
      refused = refused || frame->body.find("calls a second") != std::string::npos;
      ended += frame->stream != 0 && (frame->flags & http2::kEndStream) != 0 ? 1 : 0;
    }
  }
  ExpectGood(*honest_);
}

// Such as fit into the proxy's buffer never reach the server; of others it hears that their client is gone.
TEST_F(ProxyAttackTest, HalfSentMessagesAreEnded) {
  constexpr uint32_t kEach = 40;
  std::string sent = http2::Greeting();
  for (uint32_t i = 0; i < 2 * kEach; ++i) {
    const uint32_t stream = 2 * i + 1;
    sent += http2::InferHeaders(stream);
    std::string begun = http2::Message(std::string(1 << 20, 'x'));
    begun.resize(i < kEach ? 1000 : 60'000);
    for (size_t at = 0; at < begun.size(); at += 16'000) {
      sent += http2::Frame(http2::kData, http2::kNone, stream, begun.substr(at, 16'000));
    }
  }
  TcpConnection& stranger = Stranger(sent);
  http2::FrameReader frames(stranger);
  uint32_t before_the_server = 0;
  for (uint32_t ended = 0; ended < 2 * kEach;) {
    const auto frame = frames.Next();
    ASSERT_TRUE(frame.has_value()) << "after " << ended;
    ended += frame->type == http2::kRstStream ? 1 : 0;
    before_the_server += frame->body.find("408 Request Time-out") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(before_the_server, kEach);
  ExpectGood(*honest_);
}

// A connection is there for calls: neither silence nor pings keep one.
TEST_F(ProxyAttackTest, ConnectionsWithoutACallAreHungUpOn) {
  TcpConnection& silent = Stranger("");
  TcpConnection& pinging = Stranger(http2::Greeting());
  TcpConnection http(proxy_->http(), kStranger), half(proxy_->http(), kStranger);
  half.Send("GET /v2/health/live HTTP/1.1\r\nHos");
  const std::string ping = http2::Frame(http2::kPing, http2::kNone, 0, "12345678");
  while (!pinging.closed()) {
    pinging.Send(ping);
    pinging.Receive();
  }
  EXPECT_TRUE(silent.ReceiveUntilClosed());
  EXPECT_TRUE(http.ReceiveUntilClosed());
  EXPECT_TRUE(half.ReceiveUntilClosed());
}

TEST_F(ProxyAttackTest, ProbesAndScrapesAreAnsweredWhenStrangersHaveTakenEveryPlace) {
  ASSERT_TRUE(RaiseOwnFileLimit());
  constexpr int kAddresses = 22,
                kEach = 100;  // 2,200; 900 have a place, and all that there are is 2,000
  const std::string watch = http2::Greeting() +
                            http2::CallHeaders(1, "/grpc.health.v1.Health/Watch") +
                            http2::Frame(http2::kData, http2::kEndStream, 1, http2::Message(""));
  for (int a = 1; a <= kAddresses; ++a) {
    for (int i = 0; i < kEach; ++i) Stranger(watch, "127.0.1." + std::to_string(a));
  }
  EXPECT_EQ(HttpGet(proxy_->at(8003), "/v2/health/live"), kLiveAnswer);
  EXPECT_EQ(HttpGet(proxy_->at(8003), "/v2/health/ready"), kReadyAnswer);
  EXPECT_TRUE(HttpGet(proxy_->at(8002), "/metrics").starts_with("200 # HELP"));
  ExpectGood(*honest_);
  // And strangers are there still, with the calls that they began.
  TcpConnection& first = *strangers_.front();
  first.Send(http2::Frame(http2::kPing, http2::kNone, 0, "12345678"));
  http2::FrameReader frames(first);
  auto frame = frames.Next();
  for (; frame.has_value() && frame->type != http2::kPing; frame = frames.Next()) {
    EXPECT_NE(frame->type, http2::kRstStream);
  }
  EXPECT_TRUE(frame.has_value());
  strangers_.clear();
}

// Megabytes that nobody takes stand in the way of nobody else's.
TEST_F(ProxyAttackTest, AClientThatDoesNotReadItsAnswersHoldsUpNobodyElse) {
  inference::ModelInferRequest large = Words(std::vector<int32_t>(60'000, 1));
  large.add_outputs()->set_name("ALL_HIDDEN");
  const std::string body = large.SerializeAsString();
  TcpConnection& stranger = Stranger(
      http2::Greeting() + http2::Setting(http2::kInitialWindowSize, 1 << 30) + WideWindow());
  for (uint32_t stream = 1; stream < 8; stream += 2) {
    ASSERT_TRUE(stranger.Send(http2::Infer(stream, body)));
  }
  WaitForPage(*server_, [&](const MetricsPage& page) {
    return page.Sum("cellbatch_cells_executed_total", {R"(model="words")", R"(cell="lstm_l0")"}) >=
           4 * 60'000;
  });
  GrpcCaller another(proxy_->grpc());
  for (int i = 0; i < 50; ++i) {
    ExpectGood(*honest_);
    ExpectGood(another);
  }
  strangers_.clear();
  WaitUntilEmpty(*server_);
}

}  // namespace
}  // namespace cellbatch
