// Bytes and frames no honest client sends (serving.md 4.4, P), against the real server. After each:
// the next good request is right, nothing is in flight, and the outcome was counted once.

#include "gtest/gtest.h"
#include "tests/fault/fault_test.h"

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
  EXPECT_EQ(
      caller_->Raw("/inference.GRPCInferenceService/ModelStreamInfer", {""}).status.error_code(),
      StatusCode::UNIMPLEMENTED);
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

// HTTP/2 by hand: a header without indexing and without Huffman codes.
std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}
std::string Frame(char type, char flags, int32_t stream, const std::string& body) {
  const auto size = static_cast<uint32_t>(body.size());
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(size >> shift);
  frame += type;
  frame += flags;
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame + body;
}

TEST_F(ProtocolTest, P5AnUnknownCompressionIsNotImplemented) {
  const std::string headers =
      Header(":method", "POST") + Header(":scheme", "http") + Header(":path", kInferMethod) +
      Header(":authority", "x") + Header("te", "trailers") +
      Header("content-type", "application/grpc") + Header("grpc-encoding", "br");
  const std::string message = std::string("\x01\0\0\0\x03", 5) + "abc";  // compressed, 3 bytes
  const std::string answer = TalkTcp(server_->grpc(),
                                     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(4, 0, 0, "") +
                                         Frame(1, 4, 1, headers) + Frame(0, 1, 1, message),
                                     "grpc-encoding that");
  const size_t status = answer.find("grpc-status");
  ASSERT_NE(status, answer.npos);
  EXPECT_EQ(answer.substr(status + 11, 3),
            "\x02"
            "12");
  EXPECT_NE(answer.find("is none of identity, deflate and gzip"), answer.npos) << answer;
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

TEST_F(ProtocolTest, P7WhatIsNoHttp2IsHungUpOn) {
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'r'),
        std::string(4096, '\xa5')}) {
    const std::string answer = TalkTcp(server_->grpc(), bytes);  // returns when the server hangs up
    EXPECT_EQ(answer.find("200 OK"), answer.npos);
  }
}

TEST_F(ProtocolTest, P14TwoMessagesOrNoneOnAUnaryCall) {
  const std::string good = Words({1, 2, 3}).SerializeAsString();
  const grpc::Status two = caller_->Raw(kInferMethod, {good, good}).status;
  const grpc::Status none = caller_->Raw(kInferMethod, {}).status;
  // The library's own answers, recorded: on an asynchronous method it serves the first of two
  // messages, and takes none for an empty one.
  EXPECT_TRUE(two.ok() || two.error_code() == StatusCode::UNIMPLEMENTED ||
              two.error_code() == StatusCode::INTERNAL)
      << two.error_code() << two.error_message();
  EXPECT_TRUE(none.error_code() == StatusCode::INVALID_ARGUMENT ||
              none.error_code() == StatusCode::UNIMPLEMENTED ||
              none.error_code() == StatusCode::INTERNAL)
      << none.error_code() << none.error_message();
  RecordProperty("two_messages", two.error_code());
  RecordProperty("no_message", none.error_code());
}

}  // namespace
}  // namespace cellbatch
