// Bytes and frames no honest client sends (serving.md 4.4, P), against the real server. After each:
// the next good request is right, nothing is in flight, and the outcome was counted once.
#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/metrics_page.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

class ProtocolTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    Serve(FaultRepository(), {"--grpc-max-message-bytes=1MiB", "--devices=cpu:0"});
  }
  static double Invalid() {
    return Metric(*server_, R"(cellbatch_requests_total{model="",version="",outcome="invalid"})");
  }
  static void ExpectMalformed(const std::string& bytes) {
    const double before = Invalid();
    const RawAnswer answer = caller_->RawInfer(bytes);
    EXPECT_EQ(answer.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(answer.status.error_message(), "malformed ModelInferRequest");
    EXPECT_EQ(Invalid(), before + 1);
  }
};

TEST_F(ProtocolTest, P1UnknownServicesAndMethodsAreUnimplemented) {
  EXPECT_EQ(caller_->Raw("/no.Such/Method", {""}).status.error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(caller_->Raw("/inference.GRPCInferenceService/Nothing", {""}).status.error_code(),
            StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(caller_->Raw("/inference.GRPCInferenceService/SystemSharedMemoryStatus", {""})
                .status.error_code(),
            StatusCode::UNIMPLEMENTED);
}

// An answer like any other, not the end of the stream.
TEST_F(ProtocolTest, P1AMalformedMessageOfAStreamOfRequestsIsAnsweredByOne) {
  const RawAnswer answer =
      caller_->Raw("/inference.GRPCInferenceService/ModelStreamInfer", {"\x07garbage"});
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
  inference::ModelStreamInferResponse first;
  ASSERT_TRUE(first.ParseFromString(answer.body));
  EXPECT_EQ(first.error_message(), "malformed ModelInferRequest");
}

TEST_F(ProtocolTest, P2WhatIsNoMessageIsMalformed) {
  const std::string good = Words({1, 2, 3}).SerializeAsString();
  ExpectMalformed("\x07random bytes \xff\xfe");
  ExpectMalformed(good.substr(0, good.size() - 2));
  ExpectMalformed(std::string("\x2a\x80\x80\x80\x80\x08", 6));  // an input of 2^31 bytes
  std::string bad_text = good;
  bad_text.replace(bad_text.find("words"), 2, "\xc3\x28");
  ExpectMalformed(bad_text);
  ExpectMalformed(std::string(10000, 15 << 3 | 3));  // groups in groups
}

TEST_F(ProtocolTest, P3UnknownReorderedAndRepeatedFieldsAreFine) {
  inference::ModelInferRequest tail = Words({1, 2, 3});
  tail.clear_model_name();
  const RawAnswer answer = caller_->RawInfer(tail.SerializeAsString() + "\x9a\x06\x03new" +
                                             "\x0a\x05other" + "\x0a\x05words");
  EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
}

TEST_F(ProtocolTest, P4BodiesBeyondTheLimitPlainAndAsABomb) {
  const std::string zeros(3 << 20, '\0');
  EXPECT_EQ(caller_->RawInfer(zeros).status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const RawAnswer bomb = caller_->RawInfer(zeros, [](grpc::ClientContext& context) {
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  });
  EXPECT_EQ(bomb.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  // Honest compression is welcome.
  const RawAnswer small = caller_->RawInfer(
      Words(std::vector<int32_t>(300, 1)).SerializeAsString(),
      [](grpc::ClientContext& context) { context.set_compression_algorithm(GRPC_COMPRESS_GZIP); });
  EXPECT_TRUE(small.status.ok()) << small.status.error_message();
}

TEST_F(ProtocolTest, P5AnUnknownCompressionIsNotImplemented) {
  TcpConnection client(server_->grpc());
  client.Send(http2::kPreface + http2::Frame(http2::kSettings, http2::kNone, 0, "") +
              http2::InferHeaders(1, {{"grpc-encoding", "br"}}) +
              http2::Frame(http2::kData, http2::kEndStream, 1, http2::Message("abc", 1)));
  const std::string answer = client.ReceiveUntil("grpc-encoding that");
  const size_t status = answer.find("grpc-status");
  ASSERT_NE(status, answer.npos);
  EXPECT_EQ(answer.substr(status + 11, 3),
            "\x02"
            "12");
  EXPECT_NE(answer.find("is none of identity, deflate and gzip"), answer.npos) << answer;
  EXPECT_NE(answer.find("grpc-accept-encoding"), answer.npos) << answer;
}

TEST_F(ProtocolTest, P6MetadataBeyondTheLimit) {
  // Refused on sight, so a client that is still sending may find its connection gone (UNAVAILABLE);
  // then it tries again, on another one.
  const auto expect_refused = [](const std::function<void(grpc::ClientContext&)>& prepare) {
    grpc::Status status(StatusCode::UNAVAILABLE, "");
    for (int i = 0; i < 100 && status.error_code() == StatusCode::UNAVAILABLE; ++i) {
      GrpcCaller caller(server_->grpc());
      status = caller.RawInfer("", prepare).status;
    }
    EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  };
  expect_refused([](grpc::ClientContext& c) { c.AddMetadata("x", std::string(32768, 'y')); });
  expect_refused([](grpc::ClientContext& c) {
    for (int i = 0; i < 10000; ++i) c.AddMetadata("k" + std::to_string(i), "v");
  });
}

// What the bytes of a client of another protocol get: the connection closed, and no word of HTTP/1.
TEST_F(ProtocolTest, P7WhatIsNoHttp2IsHungUpOn) {
  const double before = MetricsPage(*server_).Ended();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'r'),
        std::string(4096, '\xa5'),
        // Greeted properly, then nonsense where a frame must be.
        http2::kPreface + std::string(4096, '\xa5')}) {
    TcpConnection client(server_->grpc());
    ASSERT_TRUE(client.connected());
    client.Send(bytes);
    std::string answer;
    for (std::string part; !(part = client.Receive()).empty();) answer += part;
    EXPECT_TRUE(client.closed()) << "the server did not hang up on " << bytes.substr(0, 12);
    EXPECT_EQ(answer.find("HTTP/1"), answer.npos);
  }
  EXPECT_EQ(MetricsPage(*server_).Ended(), before);
}

// Each ping is answered while a call is under way; without one they are strikes, and the third closes the connection.
TEST_F(ProtocolTest, P10AFloodOfPingsIsToldToGoAndHungUpOnAndOthersDoNotNotice) {
  TcpConnection client(server_->grpc());
  std::string pings;
  for (int i = 0; i < 100; ++i) pings += http2::Frame(http2::kPing, http2::kNone, 0, "12345678");
  client.Send(http2::kPreface + http2::Frame(http2::kSettings, http2::kNone, 0, "") + pings);
  http2::FrameReader frames(client);
  std::string told;
  while (const auto frame = frames.Next()) {
    if (frame->type == http2::kGoAway) told = frame->body;
    ExpectGood(*caller_);
  }
  EXPECT_TRUE(client.closed());
  EXPECT_NE(told.find("too_many_pings"), told.npos) << told;
}

// gRPC's own client with TLS: its handshake fails at once, and its call is UNAVAILABLE.
TEST_F(ProtocolTest, P7AClientThatWantsTlsIsUnavailable) {
  const double before = MetricsPage(*server_).Ended();
  const auto channel = grpc::CreateChannel(server_->grpc(), grpc::SslCredentials({}));
  const auto stub = inference::GRPCInferenceService::NewStub(channel);
  grpc::ClientContext context;
  inference::ModelInferResponse answer;
  const grpc::Status status = stub->ModelInfer(&context, Words({1, 2, 3}), &answer);
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(MetricsPage(*server_).Ended(), before);
}

// The library's own answers, recorded for 1.51: an asynchronous unary method reads one message. Of two, the first is
// served, once; where there is none, gRPC answers.
TEST_F(ProtocolTest, P14OfTwoMessagesOnAUnaryCallTheFirstIsServedOnce) {
  const MetricsPage before(*server_);
  const std::string three = Words({1, 2, 3}).SerializeAsString();
  const std::string five = Words({1, 2, 3, 4, 5}).SerializeAsString();
  const RawAnswer alone = caller_->Raw(kInferMethod, {three});
  const RawAnswer two = caller_->Raw(kInferMethod, {three, five});
  EXPECT_EQ(two.status.error_code(), StatusCode::OK) << two.status.error_message();
  EXPECT_EQ(two.body, alone.body);
  const MetricsPage after(*server_);
  EXPECT_EQ(after.Ended("ok"), before.Ended("ok") + 2);
  EXPECT_EQ(after.Ended(), before.Ended() + 2);
  EXPECT_EQ(after.Steps("words"), before.Steps("words") + 6);
}

TEST_F(ProtocolTest, P14AUnaryCallWithoutAMessageIsInternalAndNeverReachesTheService) {
  const MetricsPage before(*server_);
  const RawAnswer none = caller_->Raw(kInferMethod, {});
  EXPECT_EQ(none.status.error_code(), StatusCode::INTERNAL) << none.status.error_message();
  EXPECT_EQ(none.body, "");
  const MetricsPage after(*server_);
  EXPECT_EQ(after.Ended(), before.Ended());
  EXPECT_EQ(after.Cells("words"), before.Cells("words"));
}

}  // namespace
}  // namespace cellbatch
