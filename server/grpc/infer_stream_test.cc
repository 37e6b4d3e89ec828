#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/grpc_service.grpc.pb.h"
#include "server/grpc/grpc_transport.h"
#include "server/kserve/infer_call.h"
#include "server/requests/responder.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

using inference::GRPCInferenceService;
using inference::ModelStreamInferResponse;

constexpr int kMost = 4;

class InferStreamTest : public ::testing::Test {
 protected:
  using Stream =
      grpc::ClientReaderWriter<inference::ModelInferRequest, inference::ModelStreamInferResponse>;

  void SetUp() override { Start(nullptr); }
  void Start(const AccessTable* tokens) {
    GrpcOptions options;
    options.address = "127.0.0.1:0";
    options.messages.max_stream_requests = kMost;
    options.tokens = tokens;
    auto transport = GrpcTransport::Start(options, sinks_, kserve_, latency_, refusals_, clock_);
    ASSERT_TRUE(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
    channel_ = grpc::CreateChannel(transport_->address(), grpc::InsecureChannelCredentials());
    stub_ = GRPCInferenceService::NewStub(channel_);
    stream_ = stub_->ModelStreamInfer(&context_);
  }
  void Send(const std::string& id, std::vector<int32_t> tokens) {
    inference::ModelInferRequest request = TokensRequest(tokens);
    request.set_id(id);
    ASSERT_TRUE(stream_->Write(request));
  }
  ModelStreamInferResponse Next() {
    ModelStreamInferResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    EXPECT_TRUE(response.infer_response().parameters().at("triton_final_response").bool_param());
    return response;
  }
  // "id value", or "id: error".
  static std::string Shown(const ModelStreamInferResponse& response) {
    const inference::ModelInferResponse& answer = response.infer_response();
    if (!response.error_message().empty()) return answer.id() + ": " + response.error_message();
    float value = 0;
    if (answer.raw_output_contents_size() > 0) {
      std::memcpy(&value, answer.raw_output_contents(0).data(), 4);
    }
    return answer.id() + " " + std::to_string(static_cast<int>(value));
  }
  void WaitUntilSubmitted(int64_t requests) const {
    while (scheduler_.submitted() < requests) std::this_thread::yield();
  }
  void ExpectEnd() {
    stream_->WritesDone();
    ModelStreamInferResponse response;
    EXPECT_FALSE(stream_->Read(&response));
    EXPECT_TRUE(stream_->Finish().ok());
    while (admission_.InFlight().requests > 0) std::this_thread::yield();
  }

  SteadyClock clock_;
  std::shared_ptr<const Model> model_ = TinyModel();
  FindModel find_ = [this](std::string_view name,
                           std::string_view) -> absl::StatusOr<std::shared_ptr<const Model>> {
    if (name != "tiny") return absl::NotFoundError("unknown model");
    return model_;
  };
  FakeScheduler scheduler_;
  Admission admission_{{.max_requests = 1000, .max_cells = 1 << 20, .max_bytes = 64 << 20}};
  StatsRegistry stats_{RequestPath::Shards(2, 1)};
  Lifecycle lifecycle_;
  RequestPath path_{{.transport_threads = 2, .latency_samples = 1024},
                    find_,
                    scheduler_,
                    admission_,
                    stats_,
                    clock_};
  StreamInferService service_{path_};
  CallSinks sinks_{
      .model_infer = &service_, .infer = &service_, .decode = &service_, .stream_infer = &service_};
  KServeService kserve_{find_, [] { return std::vector<IndexEntry>{}; }, scheduler_, stats_,
                        lifecycle_};
  LatencyService latency_{path_, [] { return std::vector<TimedModel>{}; }, clock_};
  RefusalCounts refusals_;
  Responder responder_{scheduler_, path_};
  std::unique_ptr<GrpcTransport> transport_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(InferStreamTest, AnswersComeInTheOrderOfTheirRequestsAndAnErrorIsOneOfThem) {
  Send("a", {1, 2, 3});
  Send("b", {100});  // answered at once, and kept until a is
  Send("c", {4});
  WaitUntilSubmitted(2);
  scheduler_.FinishAll();
  EXPECT_EQ(Shown(Next()), "a 6");
  EXPECT_EQ(Shown(Next()),
            "b: input TOKENS of model \"tiny\": token 0 is 100, the vocabulary ends at 99");
  EXPECT_EQ(Shown(Next()), "c 4");
  ExpectEnd();
  EXPECT_EQ(stats_.Of(*model_).Read().done, 2);
}

TEST_F(InferStreamTest, NoMoreThanTheBoundAreUnderWayAndAllAreAnswered) {
  constexpr int kRequests = 50;
  std::thread writer([&] {
    for (int i = 0; i < kRequests; ++i) Send(std::to_string(i), {i});
    stream_->WritesDone();
  });
  int64_t finished = 0;
  for (int answered = 0; answered < kRequests; ++answered) {
    WaitUntilSubmitted(answered + 1);
    EXPECT_LE(scheduler_.submitted(), finished + kMost);
    finished += scheduler_.FinishAll();
    EXPECT_EQ(Shown(Next()), std::to_string(answered) + " " + std::to_string(answered));
  }
  writer.join();
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_TRUE(stream_->Finish().ok());
}

TEST_F(InferStreamTest, AClientThatLeavesCancelsAllThatIsUnderWay) {
  for (const char* id : {"a", "b", "c"}) Send(id, {1});
  WaitUntilSubmitted(3);
  context_.TryCancel();
  while (admission_.InFlight().requests > 0) std::this_thread::yield();
  const auto news = scheduler_.news();
  ASSERT_EQ(news.size(), 3u);
  for (const auto& [slot, what] : news) EXPECT_EQ(what, News::kCancelled);
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(InferStreamTest, LongMessagesGoTheSlowLaneAndKeepTheirPlace) {
  scheduler_.at_once = true;
  const std::string long_id(300'000, 'x');
  Send(long_id, {1, 2, 3});
  Send("short", {7});
  EXPECT_EQ(Shown(Next()), long_id + " 6");
  EXPECT_EQ(Shown(Next()), "short 7");
  ExpectEnd();
}

TEST_F(InferStreamTest, AnIdleStreamIsEndedWithTheServer) {
  scheduler_.at_once = true;
  Send("a", {1});
  EXPECT_EQ(Shown(Next()), "a 1");
  transport_->Shutdown(std::chrono::hours(1));  // which nobody waits for
  ModelStreamInferResponse response;
  EXPECT_FALSE(stream_->Read(&response));
  const grpc::Status status = stream_->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is shutting down");
}

TEST_F(InferStreamTest, WhatIsUnderWayIsAnsweredBeforeItsStreamEndsWithTheServer) {
  grpc::ClientContext context;
  const std::unique_ptr<Stream> idle = stub_->ModelStreamInfer(&context);
  ASSERT_TRUE(idle->Write(TokensRequest({3})));
  WaitUntilSubmitted(1);
  scheduler_.FinishAll();
  ModelStreamInferResponse response;
  ASSERT_TRUE(idle->Read(&response));
  Send("a", {1});
  Send("b", {2});
  WaitUntilSubmitted(3);
  std::thread stop([&] { transport_->Shutdown(std::chrono::hours(1)); });
  EXPECT_EQ(idle->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  scheduler_.FinishAll();
  EXPECT_EQ(Shown(Next()), "a 1");
  EXPECT_EQ(Shown(Next()), "b 2");
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  stop.join();
}

// One token, whose entry changes and goes.
class OneToken final : public AccessTable {
 public:
  absl::StatusOr<std::shared_ptr<const Access>> Find(
      std::string_view authorization) const override {
    const std::lock_guard lock(mutex_);
    if (access_ != nullptr && authorization == "Bearer t") return access_;
    return absl::UnauthenticatedError("its token is not known");
  }
  void Become(std::shared_ptr<const Access> access) {
    const std::lock_guard lock(mutex_);
    access_ = std::move(access);
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const Access> access_;
};

class InferStreamOfATokenTest : public InferStreamTest {
 protected:
  void SetUp() override {
    MayAskOf({});
    context_.AddMetadata("authorization", "Bearer t");
    Start(&token_);
  }
  void MayAskOf(std::vector<std::string> models) {
    token_.Become(
        std::make_shared<const Access>(Access::Rights{.models = std::move(models)}, use_));
  }
  std::string Ask(const std::string& id) {
    Send(id, {1});
    return Shown(Next());
  }

  AccessUse use_{"search"};
  OneToken token_;
};

TEST_F(InferStreamOfATokenTest, WhatATokenMayNoLongerAskItMayNotAskOnAStreamThatIsOpen) {
  Send("a", {7});
  WaitUntilSubmitted(1);
  MayAskOf({"another"});
  scheduler_.FinishAll();
  EXPECT_EQ(Shown(Next()), "a 7") << "what was accepted is answered";
  EXPECT_EQ(Ask("b"), "b: token search may not ask of model \"tiny\" (models of --tokens)");
  token_.Become(nullptr);
  EXPECT_EQ(Ask("c"), ": its token is not known") << "it is not read, so it has no id";
  MayAskOf({"tiny"});
  Send("d", {8});
  WaitUntilSubmitted(2);
  scheduler_.FinishAll();
  EXPECT_EQ(Shown(Next()), "d 8");
  ExpectEnd();
}

}  // namespace
}  // namespace cellbatch
