// What a message may contain (serving.md 4.4, P and V): fields that nobody knows, parts without end, and what little
// bytes become when they are inflated. Each meets a bound before anything is allocated for it; what the server takes
// meanwhile is read from its peak of resident memory, and an honest client is answered beside it.
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/cellbatch.pb.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/http2_by_hand.h"
#include "tests/fault/own_server_test.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using ::testing::HasSubstr;

constexpr int64_t kMayCost = 256 << 20;
constexpr size_t kLargest = 64 << 20;  // --grpc-max-message-bytes
constexpr const char* kReflection =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";
constexpr const char* kTypedInfer = "/cellbatch.v1.Cellbatch/Infer";

// Fields that no message of ours has, two bytes each.
std::string UnknownFields(size_t bytes) {
  std::string fields(bytes, '\0');
  for (size_t i = 0; i < bytes; i += 2) fields[i] = 15 << 3 | 2;
  return fields;
}

// The methods of both services that take one message, and reflection, each of whose messages is as one.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods = {kReflection};
  for (const auto* file : {inference::ModelInferRequest::descriptor()->file(),
                           v1::InferRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service(0)->method_count(); ++i) {
      const auto& method = *file->service(0)->method(i);
      if (!method.client_streaming()) {
        methods.push_back("/" + method.service()->full_name() + "/" + method.name());
      }
    }
  }
  return methods;
}

// A gzip stream of so many GiB of zeros, a MiB each. Its checksum is wrong, as only who inflates all of it would know.
std::string GzipBomb(int gib) {
  constexpr size_t kPiece = 16 << 20;
  const std::string zeros(kPiece, '\0');
  std::string packed(kPiece, '\0');
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(zeros.data()));
  stream.avail_in = kPiece;
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = kPiece;
  EXPECT_EQ(deflate(&stream, Z_FULL_FLUSH), Z_OK);  // what follows refers to nothing before it
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  std::string bomb("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  for (size_t i = 0; i < static_cast<size_t>(gib) * 1024 * 1024 * 1024 / kPiece; ++i)
    bomb += packed;
  return bomb + std::string("\x03\0\0\0\0\0\0\0\0\0", 10);
}

// One ModelInfer whose message is gzip's, sent as fast as the server takes it; the header blocks of its answer.
std::string InferCompressed(const ServerProcess& server, const std::string& packed) {
  TcpConnection client(server.grpc());
  client.Send(http2::kPreface + http2::Frame(http2::kSettings, http2::kNone, 0, "") +
              http2::InferHeaders(1, {{"grpc-encoding", "gzip"}}));
  http2::FrameReader frames(client);
  const std::string message = http2::Message(packed, 1);
  const auto number = [](const std::string& body, size_t at) {
    uint32_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(body[i]);
    return static_cast<int64_t>(value);
  };
  std::string answer;
  int64_t window = 65535, of_connection = window, initial = window;
  for (size_t sent = 0;;) {
    const size_t room = static_cast<size_t>(
        std::max<int64_t>(std::min({window, of_connection, int64_t{16384}}), 0));
    const size_t size = std::min(room, message.size() - sent);
    if (size > 0) {
      const bool last = sent + size == message.size();
      client.Send(http2::Frame(http2::kData, last ? http2::kEndStream : http2::kNone, 1,
                               message.substr(sent, size)));
      sent += size;
      window -= static_cast<int64_t>(size);
      of_connection -= static_cast<int64_t>(size);
      continue;
    }
    const auto frame = frames.Next();
    if (!frame.has_value()) return answer + " and hung up";
    if (frame->type == http2::kWindowUpdate) {
      (frame->stream == 0 ? of_connection : window) += number(frame->body, 0);
    } else if (frame->type == http2::kSettings && (frame->flags & http2::kAck) == 0) {
      client.Send(http2::Frame(http2::kSettings, http2::kAck, 0, ""));
      for (size_t at = 0; at + 6 <= frame->body.size(); at += 6) {
        if (frame->body[at + 1] != http2::kInitialWindowSize) continue;
        window += number(frame->body, at + 2) - initial;
        initial = number(frame->body, at + 2);
      }
    } else if (frame->type == http2::kHeaders) {
      answer += frame->body;
      if ((frame->flags & http2::kEndStream) != 0) return answer;
    }
  }
}

// A client that asks right things, one after the other, for as long as it lives; once where it does not get to run before.
class HonestClient {
 public:
  explicit HonestClient(const ServerProcess& server)
      : caller_(server.grpc()), thread_([this] {
          do ExpectGood(caller_);
          while (!stop_);
        }) {}
  ~HonestClient() {
    stop_ = true;
    thread_.join();
  }

 private:
  GrpcCaller caller_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

class ContentsTest : public OwnServerTest {
 protected:
  // What `attack` makes the server take beyond what it has had.
  int64_t CostOf(const std::function<void()>& attack) {
    ExpectGood(*caller_);
    const int64_t before = server_->PeakResidentBytes();
    {
      HonestClient honest(*server_);
      attack();
    }
    return server_->PeakResidentBytes() - before;
  }
  void ExpectAllIsWell() {
    WaitUntilEmpty(*server_);
    ExpectGood(*caller_);
    End();
  }
};

TEST_F(ContentsTest,
       TheLargestMessageOfUnknownFieldsIsRefusedByEveryMethodAndCostsNoMoreThanItsBytes) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const std::string fields = UnknownFields(kLargest);
  for (const std::string& method : AllMethods()) {
    SCOPED_TRACE(method);
    grpc::Status status;
    EXPECT_LT(CostOf([&] { status = caller_->Raw(method, {fields}).status; }), kMayCost);
    EXPECT_THAT(status.error_code(),
                ::testing::AnyOf(StatusCode::INVALID_ARGUMENT, StatusCode::RESOURCE_EXHAUSTED,
                                 StatusCode::UNIMPLEMENTED))
        << status.error_message();
  }
  ExpectAllIsWell();
}

TEST_F(ContentsTest, UnknownFieldsBeyondTheBoundAreRefusedByNameAndFewerAreNot) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-unknown-fields=10", "--grpc-max-unknown-bytes=1000"}));
  for (const std::string& method : AllMethods()) {
    SCOPED_TRACE(method);
    const grpc::Status few = caller_->Raw(method, {UnknownFields(20)}).status;
    if (few.error_code() == StatusCode::UNIMPLEMENTED) continue;
    EXPECT_THAT(few.error_message(), ::testing::Not(HasSubstr("unknown")));
    const grpc::Status many = caller_->Raw(method, {UnknownFields(22)}).status;
    EXPECT_EQ(many.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(
        many.error_message(),
        "the request has 11 unknown fields or more, the most is 10 (--grpc-max-unknown-fields)");
    const grpc::Status large =
        caller_->Raw(method, {std::string("\x7a\xe6\x07") + std::string(998, 'x')}).status;
    EXPECT_EQ(large.error_message(),
              "the request has 1001 bytes of unknown fields or more, the most is 1000 "
              "(--grpc-max-unknown-bytes)");
  }
  const MetricsPage page(*server_);
  const double methods =
      page.Sum("cellbatch_messages_refused_total", {R"(reason="unknown_fields")"});
  EXPECT_GE(methods, 11);
  EXPECT_EQ(page.Sum("cellbatch_messages_refused_total", {R"(reason="unknown_bytes")"}), methods);
  ExpectAllIsWell();
}

TEST_F(ContentsTest, P4WhatAFewBytesInflateToIsBounded) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const std::string bomb = GzipBomb(2);
  std::string answer;
  EXPECT_LT(CostOf([&] { answer = InferCompressed(*server_, bomb); }), kMayCost);
  EXPECT_THAT(answer, HasSubstr("more than 16777216 bytes (--grpc-max-inflated-bytes)"));
  ExpectAllIsWell();
}

TEST_F(ContentsTest, PackedNumbersAreAdmittedForWhatTheyBecome) {
  constexpr int kNumbers = 16'000'000;  // a byte each
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-queued-bytes=128MiB"}));
  inference::ModelInferRequest request;
  request.set_model_name(kWords.name);
  auto* input = request.add_inputs();
  input->set_name("TOKENS");
  input->set_datatype("INT64");
  input->add_shape(kNumbers);
  input->mutable_contents()->mutable_int64_contents()->Resize(kNumbers, 1);
  grpc::Status status;
  EXPECT_LT(
      CostOf([&] { status = caller_->Raw(kInferMethod, {request.SerializeAsString()}).status; }),
      kMayCost);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("--max-queued-bytes"));
  ExpectAllIsWell();
}

// Each takes the slow lane's one thread some tens of milliseconds, and holds a MB until it is its turn.
TEST_F(ContentsTest, WhatWaitsForTheSlowLaneIsBoundedByNumberAndByBytes) {
  constexpr int kAtOnce = 32;
  const std::string bomb = GzipBomb(1);
  ASSERT_GT(bomb.size(), size_t{1'000'000});
  struct Case {
    const char *flag, *bound, *reason;
  };
  for (const Case& by :
       {Case{"--grpc-max-slow-calls=2", "(--grpc-max-slow-calls)", R"(reason="slow_calls")"},
        Case{"--grpc-max-slow-bytes=2500000", "(--grpc-max-slow-bytes)",
             R"(reason="slow_bytes")"}}) {
    SCOPED_TRACE(by.flag);
    ASSERT_NO_FATAL_FAILURE(Serve({by.flag}));
    std::atomic<int> refused = 0, inflated = 0;
    EXPECT_LT(CostOf([&] {
                std::vector<std::thread> attackers;
                for (int i = 0; i < kAtOnce; ++i) {
                  attackers.emplace_back([&] {
                    const std::string answer = InferCompressed(*server_, bomb);
                    if (answer.find(by.bound) != answer.npos) ++refused;
                    if (answer.find("(--grpc-max-inflated-bytes)") != answer.npos) ++inflated;
                  });
                }
                for (std::thread& attacker : attackers) attacker.join();
              }),
              kMayCost);
    EXPECT_GE(refused, 1);
    EXPECT_GE(inflated, 1);
    EXPECT_EQ(refused + inflated, kAtOnce) << "each was answered once";
    const MetricsPage page(*server_);
    EXPECT_EQ(page.Sum("cellbatch_messages_refused_total", {by.reason}), refused);
    EXPECT_EQ(page.Ended("rejected"), kAtOnce);
    ExpectAllIsWell();
  }
}

TEST_F(ContentsTest, ACompressedMessageOfUnknownFieldsIsRefusedAndHonestCompressionIsNot) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-inflated-bytes=64MiB"}));
  for (const grpc_compression_algorithm by : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    const auto compressed = [by](grpc::ClientContext& context) {
      context.set_compression_algorithm(by);
    };
    for (const char* method : {kInferMethod, kTypedInfer}) {
      grpc::Status status;
      EXPECT_LT(CostOf([&] {
                  status = caller_->Raw(method, {UnknownFields(kLargest)}, compressed).status;
                }),
                kMayCost);
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
      EXPECT_THAT(status.error_message(), HasSubstr("--grpc-max-unknown-fields"));
    }
    inference::ModelInferResponse plain, small;
    const inference::ModelInferRequest request = Words(std::vector<int32_t>(3000, 1));
    ASSERT_TRUE(caller_->Infer(request, plain).ok());
    const grpc::Status status = caller_->Infer(request, small, compressed);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(FirstOutput(small), FirstOutput(plain));
  }
  ExpectAllIsWell();
}

v1::InferRequest ManyInputs() {
  v1::InferRequest request;
  request.set_model_name(kWords.name);
  for (int i = 0; i < 4096; ++i) request.add_inputs()->mutable_sequence()->add_tokens(1);
  return request;
}

TEST_F(ContentsTest, WhatEveryInputOfACallWouldReadAgainIsBounded) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  v1::InferRequest parameters = ManyInputs(), outputs = ManyInputs();
  for (int i = 0; i < 60'000; ++i) (*parameters.mutable_parameters())[std::to_string(i)] = 1;
  for (int i = 0; i < 600'000; ++i) outputs.add_outputs("x");
  struct Case {
    const v1::InferRequest& request;
    const char* text;
  };
  for (const Case& by :
       {Case{parameters, "the request has 65 parameters or more, the most is 64"},
        Case{outputs, "the request has 65 requested outputs or more, the most is 64"}}) {
    grpc::Status status;
    EXPECT_LT(CostOf([&] {
                status = caller_->Raw(kTypedInfer, {by.request.SerializeAsString()}).status;
              }),
              kMayCost);
    EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), by.text);
  }
  ExpectAllIsWell();
}

// Streams that ask nothing more are bounded, and hold no thread.
TEST_F(ContentsTest, ReadinessAndMetadataAreAnsweredBesideIdleReflectionStreams) {
  constexpr int kStreams = 100, kMost = 70;  // the library would have 64 threads
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-max-reflection-streams=70"}));
  ASSERT_NO_FATAL_FAILURE(ExpectGood(*caller_));
  grpc::GenericStub stub(caller_->channel());
  grpc::CompletionQueue done;
  struct Stream {
    grpc::ClientContext context;
    grpc::ByteBuffer answer;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  const auto next = [&done] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(done.Next(&tag, &ok));
    return ok;
  };
  int answered = 0;
  for (int i = 0; i < kStreams; ++i) {
    Stream& stream = *streams.emplace_back(std::make_unique<Stream>());
    stream.call = stub.PrepareCall(&stream.context, kReflection, &done);
    stream.call->StartCall(&stream);
    next();
    const grpc::Slice list_services(std::string("\x3a\x00", 2));
    stream.call->Write(grpc::ByteBuffer(&list_services, 1), &stream);
    next();
    stream.call->Read(&stream.answer, &stream);
    answered += next() ? 1 : 0;  // or refused
  }
  EXPECT_EQ(answered, kMost);
  EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_messages_refused_total", {R"(reason="streams")"}),
            kStreams - kMost);
  for (const char* method :
       {"ServerLive", "ServerReady", "ServerMetadata", "ModelStatistics", "RepositoryIndex"}) {
    const RawAnswer answer =
        caller_->Raw(std::string("/inference.GRPCInferenceService/") + method, {""});
    EXPECT_TRUE(answer.status.ok()) << method << ": " << answer.status.error_message();
    EXPECT_FALSE(answer.body.empty()) << method;
  }
  ExpectGood(*caller_);
  for (const auto& stream : streams) {
    stream->context.TryCancel();
    grpc::Status status;
    stream->call->Finish(&status, stream.get());
    next();
  }
  ExpectAllIsWell();
}

}  // namespace
}  // namespace cellbatch
