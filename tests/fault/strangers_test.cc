// What a stranger may cost on the gRPC port before a call comes of it (issue 14): half-sent messages, header blocks without an end,
// streams that bring nothing, requests that are given up as soon as they are made. Each beside an honest client, who has all
// of its answers.
#include "tests/fault/attacks/strangers.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/attacks/half_sender.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kBeyond = 256 * kMiB;  // what an attack may cost beside the bounds that are set
constexpr int64_t kBack = 64 * kMiB;     // and what may stay

class StrangersTest : public OwnServerTest {
 protected:
  void Serve(std::vector<std::string> flags) {
    ASSERT_NO_FATAL_FAILURE(OwnServerTest::Serve(std::move(flags)));
    ExpectGood(*caller_);
    before_ = server_->ResidentBytes();
    honest_ = std::thread([this] {
      while (!attacked_) {
        GrpcCaller caller(server_->grpc());
        for (int i = 0; i < 20 && !attacked_; ++i) ExpectGood(caller);
      }
    });
  }
  void TearDown() override { Attacked(); }
  void Attacked() {
    attacked_ = true;
    if (honest_.joinable()) honest_.join();
  }
  double Cut(const std::string& reason) const {
    return MetricsPage(*server_).Sum("cellbatch_grpc_cut_total", {"reason=\"" + reason + "\""});
  }
  void WaitUntilCut(const std::string& reason, double connections) const {
    while (Cut(reason) < connections) std::this_thread::yield();
  }
  // What was taken is the system's again.
  void WaitUntilBack() const {
    while (server_->ResidentBytes() > before_ + kBack) std::this_thread::yield();
  }
  // The attackers are gone: no more was taken than was allowed, what they took goes back, and only they were
  // hung up on.
  void ExpectBounded(int64_t bound, const std::string& reason) {
    EXPECT_LT(server_->PeakResidentBytes() - before_, bound + kBeyond);
    Attacked();
    WaitUntilBack();
    EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_grpc_cut_total"), Cut(reason));
    ExpectGood(*caller_);
    End();
  }

  int64_t before_ = 0;
  std::atomic<bool> attacked_ = false;
  std::thread honest_;
};

// Sends until it is hung up on, or all of it is sent.
void SendMuch(const TcpConnection& peer, const std::string& part, int64_t bytes) {
  for (int64_t sent = 0; sent < bytes; sent += static_cast<int64_t>(part.size())) {
    if (!peer.Send(part)) return;
  }
}

TEST_F(StrangersTest, HalfSentMessagesOfManyClientsAreBoundedTogetherAndGoWithThem) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-unfinished-bytes=32MiB"}));
  constexpr int kClients = 24;
  {
    std::vector<std::unique_ptr<HalfSender>> senders;
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) {
      senders.push_back(std::make_unique<HalfSender>(server_->grpc()));
      threads.emplace_back([&sender = *senders.back()] { sender.Run(); });
    }
    for (std::thread& thread : threads) thread.join();
    WaitUntilCut("unfinished_bytes", kClients);
  }
  ExpectBounded(32 * kMiB, "unfinished_bytes");
}

TEST_F(StrangersTest, AMessageThatDoesNotComeWholeInTimeEndsItsConnectionThoughBytesKeepComing) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-message-timeout=500ms"}));
  const std::string half =
      http2::Greeting() + http2::InferHeaders(1) +
      http2::Frame(http2::kData, http2::kNone, 1, http2::HeadOfMessage(4 << 20));
  TcpConnection silent(server_->grpc());
  ASSERT_TRUE(silent.Send(half));
  TcpConnection dripping(server_->grpc());
  ASSERT_TRUE(dripping.Send(half));
  while (dripping.Send(http2::Frame(http2::kData, http2::kNone, 1, "x"))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_TRUE(silent.ReceiveUntilClosed());
  WaitUntilCut("message_timeout", 2);
  ExpectBounded(0, "message_timeout");
}

TEST_F(StrangersTest, AHeaderBlockWithoutAnEndIsHungUpOnWhateverItsFramesAre) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  std::string headers, empty;
  for (int i = 0; i < 50; ++i) {
    headers += http2::Header("x-" + std::to_string(i), std::string(100, 'x'));
  }
  for (int i = 0; i < 5000; ++i) empty += http2::Header("", "");
  double ended = 0;
  for (const std::string& block : {headers, empty, std::string()}) {
    TcpConnection peer(server_->grpc());
    ASSERT_TRUE(peer.Send(http2::Greeting() + http2::InferHeaders(1, {}, http2::kNone)));
    const std::string frame = http2::Frame(http2::kContinuation, http2::kNone, 1, block);
    std::string many;
    while (many.size() < 60'000) many += frame;
    SendMuch(peer, many, 512 * kMiB);
    EXPECT_TRUE(peer.ReceiveUntilClosed());
    WaitUntilCut("header_block", ++ended);
  }
  ExpectBounded(0, "header_block");
}

// gRPC bounds the metadata of each frame.
TEST_F(StrangersTest, MetadataInManyFramesMeetsTheBoundOfOne) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const auto infer = [](int frames) {
    std::string call = http2::InferHeaders(1, {}, http2::kNone);
    for (int i = 1; i <= frames; ++i) {
      std::string block;
      for (int k = 0; k < 40; ++k) {
        block += http2::Header("x-" + std::to_string(100 * i + k), std::string(110, 'x'));
      }
      call += http2::Frame(http2::kContinuation, i == frames ? http2::kEndHeaders : http2::kNone, 1,
                           block);
    }
    return http2::Greeting() + call +
           http2::Frame(http2::kData, http2::kEndStream, 1,
                        http2::Message(Words({1, 2, 3}).SerializeAsString()));
  };
  // 5 KB a frame: two are beyond 8 KiB, fourteen are 70 KB.
  TcpConnection two(server_->grpc());
  ASSERT_TRUE(two.Send(infer(2)));
  WaitForPage(*server_, [](const MetricsPage& page) {
    return page.Sum("cellbatch_messages_refused_total", {R"(reason="metadata")"}) == 1;
  });
  TcpConnection fourteen(server_->grpc());
  fourteen.Send(infer(14));
  EXPECT_TRUE(fourteen.ReceiveUntilClosed());
  WaitUntilCut("header_block", 1);
  ExpectBounded(0, "header_block");
}

TEST_F(StrangersTest, StreamsThatBringNothingAreBoundedThoughSettingsAreNotAcknowledgedOrTooSoon) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const std::string acknowledged = http2::Frame(http2::kSettings, http2::kAck, 0, "");
  for (const std::string& said : {std::string(), acknowledged}) {
    TcpConnection peer(server_->grpc());
    ASSERT_TRUE(peer.Send(http2::Greeting() + said));
    OpenMany(peer, 200'000);
    EXPECT_TRUE(peer.ReceiveUntilClosed());
    WaitUntilBack();
  }
  WaitUntilCut("streams", 1);
  ExpectBounded(0, "streams");
}

TEST_F(StrangersTest, StreamsThatBringNothingAreBoundedOverManyConnectionsToo) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-streams=1000"}));
  std::string many = http2::Greeting();
  for (uint32_t i = 0; i < 400; ++i) many += http2::InferHeaders(2 * i + 1);
  std::vector<std::unique_ptr<TcpConnection>> peers;
  for (int i = 0; i < 10; ++i) {
    peers.push_back(std::make_unique<TcpConnection>(server_->grpc()));
    peers.back()->Send(many);
  }
  WaitUntilCut("streams", 8);
  peers.clear();
  ExpectBounded(0, "streams");
}

TEST_F(StrangersTest, WhoGivesUpWhatItOpensOverAndOverIsHungUpOn) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      TcpConnection peer(server_->grpc());
      if (!peer.Send(http2::Greeting())) return;
      OpenAndResetMany(peer, 25'000);
      EXPECT_TRUE(peer.ReceiveUntilClosed());
    });
  }
  for (std::thread& thread : threads) thread.join();
  WaitUntilCut("resets", 4);
  ExpectBounded(0, "resets");
}

TEST_F(StrangersTest, HeadersOfAStreamThatIsNoLongerToComeAreHungUpOn) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  std::string block;
  for (int i = 0; i < 60; ++i) block += http2::Header("x", std::string(100, 'x'));
  TcpConnection peer(server_->grpc());
  ASSERT_TRUE(peer.Send(http2::Greeting() + http2::InferHeaders(3)));
  SendMuch(peer, http2::Frame(http2::kHeaders, http2::kEndHeaders, 1, block), 1024 * kMiB);
  EXPECT_TRUE(peer.ReceiveUntilClosed());
  WaitUntilCut("resets", 1);
  ExpectBounded(0, "resets");
}

// A thousand times as many at once as may be admitted.
TEST_F(StrangersTest, AFloodOfRequestsTakesNoMoreThanItMay) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-queued-bytes=64MiB", "--max-queued-requests=100"}));
  const auto& all = StrangerAttacks();
  const auto flood = std::ranges::find_if(
      all, [](const StrangerAttack& attack) { return std::string(attack.name) == "flood"; });
  ASSERT_NE(flood, all.end());
  flood->make({.grpc = server_->grpc(), .http = server_->http(), .from = ""});
  const MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_GE(page.Ended("ok"), 1000);
  EXPECT_GT(page.Ended("rejected"), 0);
  ExpectBounded(64 * kMiB, "streams");
}

// gRPC would read on for as long as bytes keep coming, with buffers for as much as came, up to an abort at 2 GiB.
TEST_F(StrangersTest, AClientThatNeverStopsSendingHoldsUpNobodyAndTakesNoMemory) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  // Answers to pings that were not sent are read, which takes longer than sending them, and forgotten.
  std::string part;
  for (int i = 0; i < 4000; ++i) part += http2::Frame(http2::kPing, http2::kAck, 0, "12345678");
  constexpr int64_t kSent = 600 * kMiB, kMayCost = 64 * kMiB;
  {
    TcpConnection peer(server_->grpc());
    ASSERT_TRUE(peer.Send(http2::Greeting() + http2::InferHeaders(3)));
    SendMuch(peer, part, kSent);
    GrpcCaller another(server_->grpc());
    ExpectGood(another);
  }
  EXPECT_LT(server_->PeakResidentBytes() - before_, kMayCost);
  Attacked();
  End();
}

TEST_F(StrangersTest, AnUploadInManyPiecesAndCancelsOfAnHonestClientAreNotHungUpOn) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const std::string call = http2::Infer(1, Words(std::vector<int32_t>(500, 1)).SerializeAsString());
  TcpConnection slow(server_->grpc());
  ASSERT_TRUE(slow.Send(http2::Greeting()));
  constexpr size_t kPiece = 7;
  const double before = MetricsPage(*server_).Ended("cancelled");
  for (size_t at = 0; at < call.size(); at += kPiece) {
    ASSERT_TRUE(slow.Send(call.substr(at, kPiece)));
    if (at / kPiece % 4 != 0) continue;
    GrpcCaller& caller = *caller_;
    grpc::ClientContext context;
    std::thread cancels([&] { context.TryCancel(); });
    inference::ModelInferResponse answer;
    caller.stub().ModelInfer(&context, Words({1, 2, 3}, "slow"), &answer);
    cancels.join();
  }
  http2::FrameReader frames(slow);
  for (bool ended = false; !ended;) {
    const auto frame = frames.Next();
    ASSERT_TRUE(frame.has_value()) << "hung up on";
    ended = frame->type == http2::kHeaders && (frame->flags & http2::kEndStream) != 0;
  }
  // Longer than any that is served, and all of it comes.
  EXPECT_FALSE(caller_->RawInfer(std::string(60 << 20, '\0')).status.ok());
  EXPECT_GE(MetricsPage(*server_).Ended("cancelled"), before);
  EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_grpc_cut_total"), 0);
  Attacked();
  End();
}

}  // namespace
}  // namespace cellbatch
