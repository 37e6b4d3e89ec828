#include "server/grpc/grpc_transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/grpc_service.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "server/kserve/infer_call.h"
#include "server/requests/responder.h"
#include "server/typed/typed_service.h"
#include "tests/testing/decoder_model.h"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using inference::GRPCInferenceService;

// Keeps calls until the test answers them.
class KeepingSink final : public CallSink {
 public:
  void Start(ServerCall& call) override {
    const std::lock_guard lock(mutex_);
    calls_.push_back(&call);
  }
  void Cancelled(ServerCall&) override {}
  std::vector<ServerCall*> Wait(size_t calls) {
    while (true) {
      std::this_thread::yield();
      const std::lock_guard lock(mutex_);
      if (calls_.size() == calls) return calls_;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<ServerCall*> calls_;
};

// Descriptors of this process whose connections hold back what they are to send.
int HeldDescriptors() {
  constexpr int kMost = 1024;
  int held = 0;
  for (int descriptor = 0; descriptor < kMost; ++descriptor) {
    int value = 0;
    socklen_t size = sizeof(value);
    const int got = getsockopt(descriptor, IPPROTO_TCP, TCP_CORK, &value, &size);
    held += got == 0 && value != 0 ? 1 : 0;
  }
  return held;
}

class GrpcTransportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    scheduler_.at_once = true;
    MessageBounds messages;
    messages.slow.max_calls = 2;
    messages.max_inflated_bytes = 600 << 10;
    auto transport =
        GrpcTransport::Start({.address = "127.0.0.1:0", .threads = 2, .messages = messages}, sinks_,
                             kserve_, latency_, refusals_, clock_);
    ASSERT_TRUE(transport.ok()) << transport.status();
    transport_ = *std::move(transport);
    channel_ = grpc::CreateChannel(transport_->address(), grpc::InsecureChannelCredentials());
    stub_ = GRPCInferenceService::NewStub(channel_);
  }
  grpc::Status Infer(const inference::ModelInferRequest& request,
                     inference::ModelInferResponse& answer, grpc::ClientContext& context) {
    return stub_->ModelInfer(&context, request, &answer);
  }
  void ExpectGood() {
    grpc::ClientContext context;
    inference::ModelInferResponse answer;
    const grpc::Status status = Infer(TokensRequest({1, 2, 3}), answer, context);
    ASSERT_TRUE(status.ok()) << status.error_message();
    float value = 0;
    std::memcpy(&value, answer.raw_output_contents(0).data(), 4);
    EXPECT_EQ(value, 6);
  }
  grpc::health::v1::HealthCheckResponse::ServingStatus Health(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse answer;
    const grpc::Status status =
        grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, &answer);
    return status.ok() ? answer.status() : grpc::health::v1::HealthCheckResponse::SERVICE_UNKNOWN;
  }

  SteadyClock clock_;
  std::shared_ptr<const Model> model_ = TinyModel();
  std::shared_ptr<const Model> decoder_ = DecoderModel();
  FindModel find_ = [this](std::string_view name,
                           std::string_view) -> absl::StatusOr<std::shared_ptr<const Model>> {
    if (name == "decoder") return decoder_;
    if (name != "tiny") return absl::NotFoundError("unknown model");
    return model_;
  };
  FakeScheduler scheduler_;
  Admission admission_{{.max_requests = 1000, .max_cells = 300, .max_bytes = 1 << 20}};
  StatsRegistry stats_{RequestPath::Shards(2, 1)};
  Lifecycle lifecycle_;
  RequestPath path_{{.transport_threads = 2, .latency_samples = 1024},
                    find_,
                    scheduler_,
                    admission_,
                    stats_,
                    clock_};
  InferService infer_{path_};
  TypedInferService typed_infer_{path_};
  DecodeService decode_{path_};
  CallSinks sinks_{.model_infer = &infer_, .infer = &typed_infer_, .decode = &decode_};
  std::promise<void> index_may_go_;
  std::shared_future<void> index_goes_ = index_may_go_.get_future().share();
  bool index_waits_ = false;
  KServeService kserve_{find_,
                        [this] {
                          if (index_waits_) index_goes_.wait();
                          return std::vector<IndexEntry>{};
                        },
                        scheduler_, stats_, lifecycle_};
  LatencyService latency_{path_, [] { return std::vector<TimedModel>{}; }, clock_};
  RefusalCounts refusals_;
  Responder responder_{scheduler_, path_};
  std::unique_ptr<GrpcTransport> transport_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<GRPCInferenceService::Stub> stub_;
};

TEST_F(GrpcTransportTest, ManyCallsAtOnceAreAllAnswered) {
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([&] {
      for (int i = 0; i < 200; ++i) ExpectGood();
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(stats_.Of(*model_).Read().done, 800);
}

TEST_F(GrpcTransportTest, PushbackTravelsAsTrailingMetadata) {
  scheduler_.at_once = false;
  grpc::ClientContext context;
  inference::ModelInferResponse answer;
  const grpc::Status status = Infer(TokensRequest(std::vector<int32_t>(301, 1)), answer, context);
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  const auto& trailing = context.GetServerTrailingMetadata();
  const auto pushback = trailing.find("grpc-retry-pushback-ms");
  ASSERT_NE(pushback, trailing.end());
  EXPECT_EQ(std::string(pushback->second.data(), pushback->second.size()), "-1");
}

TEST_F(GrpcTransportTest, CancelsAndDeadlinesReachTheScheduler) {
  scheduler_.at_once = false;
  grpc::ClientContext cancelled;
  std::thread canceller([&] {
    while (scheduler_.submitted() < 1) std::this_thread::yield();
    cancelled.TryCancel();
  });
  inference::ModelInferResponse answer;
  EXPECT_EQ(Infer(TokensRequest({1}), answer, cancelled).error_code(), StatusCode::CANCELLED);
  canceller.join();

  grpc::ClientContext expired;
  expired.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(30));
  EXPECT_EQ(Infer(TokensRequest({1}), answer, expired).error_code(), StatusCode::DEADLINE_EXCEEDED);
  // Both leave the scheduler, though nothing ever computes them.
  while (admission_.InFlight().requests > 0) std::this_thread::yield();
  ASSERT_GE(scheduler_.news().size(), 2u);
  scheduler_.at_once = true;
  ExpectGood();
}

TEST_F(GrpcTransportTest, TypedCallsAreAnsweredAndMalformedOnesAreInvalid) {
  const auto stub = v1::Cellbatch::NewStub(channel_);
  v1::InferRequest request;
  request.set_model_name("tiny");
  for (const int token : {4, 5, 100}) request.add_inputs()->mutable_sequence()->add_tokens(token);
  v1::InferResponse response;
  {
    grpc::ClientContext context;
    ASSERT_TRUE(stub->Infer(&context, request, &response).ok());
  }
  ASSERT_EQ(response.answers_size(), 3);
  EXPECT_EQ(response.answers(1).outputs(0).floats(0), 5);
  EXPECT_EQ(response.answers(2).code(), 3);
  {
    grpc::ClientContext context;
    v1::LatencyResponse latency;  // an ordinary call of the same service
    EXPECT_TRUE(stub->Latency(&context, v1::LatencyRequest(), &latency).ok());
  }
  request.set_model_name("nobody");
  grpc::ClientContext context;
  EXPECT_EQ(stub->Infer(&context, request, &response).error_code(), StatusCode::NOT_FOUND);
}

TEST_F(GrpcTransportTest, WordsCrossGrpcAsTheyAreToldAndACancelStopsThem) {
  scheduler_.at_once = false;
  const auto stub = v1::Cellbatch::NewStub(channel_);
  v1::DecodeRequest request;
  request.set_model_name("decoder");
  request.mutable_source()->add_tokens(3);
  v1::DecodeResponse event;
  {
    grpc::ClientContext context;
    const auto reader = stub->Decode(&context, request);
    while (scheduler_.TellWords({7}) == 0) std::this_thread::yield();
    ASSERT_TRUE(reader->Read(&event)) << "the first word, while the request runs on";
    EXPECT_EQ(event.word().id(), 7);
    scheduler_.TellWords({7, 8, 9});
    ASSERT_TRUE(reader->Read(&event));
    ASSERT_TRUE(reader->Read(&event));
    EXPECT_EQ(event.word().step(), 2);
    EXPECT_EQ(event.word().id(), 9);
    scheduler_.FinishAll();
    ASSERT_TRUE(reader->Read(&event));
    EXPECT_EQ(event.end().length(), 3);
    EXPECT_FALSE(reader->Read(&event));
    EXPECT_TRUE(reader->Finish().ok());
  }
  {
    grpc::ClientContext context;
    const auto reader = stub->Decode(&context, request);
    while (scheduler_.TellWords({7}) == 0) std::this_thread::yield();
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    EXPECT_FALSE(reader->Read(&event));
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  }
  while (admission_.InFlight().requests > 0) std::this_thread::yield();
  grpc::ClientContext context;
  request.clear_source();
  const auto reader = stub->Decode(&context, request);
  EXPECT_FALSE(reader->Read(&event));
  EXPECT_EQ(reader->Finish().error_code(), StatusCode::INVALID_ARGUMENT);
  scheduler_.at_once = true;
  ExpectGood();
}

TEST_F(GrpcTransportTest, HealthFollowsSetServingForEveryName) {
  using grpc::health::v1::HealthCheckResponse;
  for (const char* name : {"", "inference.GRPCInferenceService", "cellbatch.v1.Cellbatch"}) {
    EXPECT_EQ(Health(name), HealthCheckResponse::NOT_SERVING) << name;
  }
  grpc::ClientContext watching;
  grpc::health::v1::HealthCheckRequest request;
  auto watch = grpc::health::v1::Health::NewStub(channel_)->Watch(&watching, request);
  HealthCheckResponse state;
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::NOT_SERVING);
  transport_->SetServing(true);
  ASSERT_TRUE(watch->Read(&state));
  EXPECT_EQ(state.status(), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("inference.GRPCInferenceService"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("nobody"), HealthCheckResponse::SERVICE_UNKNOWN);
  watching.TryCancel();
  while (watch->Read(&state)) {
  }
  watch->Finish();
}

TEST_F(GrpcTransportTest, WhoIsSentAwayConnectsAgainAndLosesNothing) {
  const auto in_a_minute = std::chrono::system_clock::now() + std::chrono::minutes(1);
  std::atomic<bool> stop = false, seen = false;
  std::thread client([&] {
    while (!stop) ExpectGood();
  });
  EXPECT_TRUE(channel_->WaitForConnected(in_a_minute));
  std::thread watch([&] {
    EXPECT_TRUE(channel_->WaitForStateChange(GRPC_CHANNEL_READY, in_a_minute));
    seen = true;
  });
  while (!seen) transport_->SendClientsAway(std::chrono::milliseconds(500));
  watch.join();
  EXPECT_TRUE(channel_->WaitForConnected(in_a_minute));
  stop = true;
  client.join();
}

TEST_F(GrpcTransportTest, ShutdownWaitsForAnswersAndEndsThoughClientsKeepCalling) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  for (int t = 0; t < 2; ++t) {
    clients.emplace_back([&] {
      while (!stop) {
        grpc::ClientContext context;
        inference::ModelInferResponse answer;
        const grpc::Status status = Infer(TokensRequest({1, 2}), answer, context);
        EXPECT_TRUE(status.ok() || status.error_code() == StatusCode::UNAVAILABLE ||
                    status.error_code() == StatusCode::CANCELLED)
            << status.error_code() << status.error_message();
      }
    });
  }
  while (stats_.Of(*model_).Read().done < 100) std::this_thread::yield();
  transport_->Shutdown(std::chrono::milliseconds(500));
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(admission_.InFlight().requests, 0);
}

TEST_F(GrpcTransportTest, AConnectionIsHeldWhileItsAnswersAreGivenAndNoLonger) {
  constexpr size_t kCalls = 3;
  KeepingSink sink;
  sinks_.model_infer = &sink;
  auto started = GrpcTransport::Start({.address = "127.0.0.1:0"}, sinks_, kserve_, latency_,
                                      refusals_, clock_);
  ASSERT_TRUE(started.ok()) << started.status();
  channel_ = grpc::CreateChannel((*started)->address(), grpc::InsecureChannelCredentials());
  stub_ = GRPCInferenceService::NewStub(channel_);
  std::vector<std::thread> clients;
  for (size_t i = 0; i < kCalls; ++i) {
    clients.emplace_back([&] {
      grpc::ClientContext context;
      inference::ModelInferResponse answer;
      EXPECT_TRUE(Infer(TokensRequest({1}), answer, context).ok());
    });
  }
  const std::vector<ServerCall*> calls = sink.Wait(kCalls);
  EXPECT_EQ(HeldDescriptors(), 0);
  {
    const HeldOutlet held(calls[0]->outlet());
    calls[0]->Finish(CallResult());
    EXPECT_EQ(HeldDescriptors(), 2) << "gRPC's of that connection, and the listener's";
    calls[1]->Finish(CallResult());
  }
  EXPECT_EQ(HeldDescriptors(), 0);
  calls[2]->Finish(CallResult());
  EXPECT_EQ(HeldDescriptors(), 0);
  for (std::thread& client : clients) client.join();
}

TEST_F(GrpcTransportTest, ACompressedRequestIsAdmittedForWhatItMayBecomeBeforeItIsInflated) {
  const inference::ModelInferRequest request = TokensRequest(std::vector<int32_t>(200, 1));
  const auto ask = [&] {
    grpc::ClientContext context;
    context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    inference::ModelInferResponse answer;
    return Infer(request, answer, context);
  };
  Ticket others;
  Refusal refusal;
  ASSERT_TRUE(admission_.Admit({0, 0, 500 << 10}, clock_.NowNs(), others, refusal));
  const grpc::Status refused = ask();  // there is room for what it is, none for what it might be
  EXPECT_EQ(refused.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("--max-queued-bytes"), std::string::npos)
      << refused.error_message();
  others.Release();
  scheduler_.at_once = false;
  std::thread client([&] { EXPECT_TRUE(ask().ok()); });
  while (scheduler_.submitted() < 1) std::this_thread::yield();
  EXPECT_LT(admission_.InFlight().bytes, 100 << 10) << "what it did not become is given back";
  scheduler_.FinishAll();
  client.join();
}

TEST_F(GrpcTransportTest, WhatWaitsForTheSlowLaneIsBoundedAndNoProbeWaitsBehindIt) {
  constexpr int kCalls = 3;  // one more than may
  index_waits_ = true;
  struct Call {
    grpc::ClientContext context;
    inference::RepositoryIndexResponse answer;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<inference::RepositoryIndexResponse>> reader;
  };
  grpc::CompletionQueue done;
  std::vector<Call> calls(kCalls);
  for (Call& call : calls) {
    call.reader = stub_->AsyncRepositoryIndex(&call.context, {}, &done);
    call.reader->Finish(&call.answer, &call.status, &call);
  }
  void* first = nullptr;
  bool ok = false;
  ASSERT_TRUE(done.Next(&first, &ok));
  const Call& refused = *static_cast<Call*>(first);
  EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.status.error_message(),
            "as many calls as may wait for the thread that takes large messages, compressed ones "
            "and queries: 2 (--grpc-max-slow-calls)");
  EXPECT_EQ(refused.context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(refusals_.Of(Refused::kSlowCalls), 1);
  // The others still wait; a probe is answered, though it comes compressed, and so is inference.
  grpc::ClientContext probing, checking;
  for (grpc::ClientContext* context : {&probing, &checking}) {
    context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  }
  inference::ModelReadyRequest of_model;
  of_model.set_name(std::string(1000, 'x'));  // long enough to be compressed
  inference::ModelReadyResponse ready;
  EXPECT_EQ(stub_->ModelReady(&probing, of_model, &ready).error_code(),
            StatusCode::INVALID_ARGUMENT)
      << "no model has such a name";
  grpc::health::v1::HealthCheckRequest of_service;
  of_service.set_service(std::string(1000, 'x'));
  grpc::health::v1::HealthCheckResponse health;
  EXPECT_EQ(grpc::health::v1::Health::NewStub(channel_)
                ->Check(&checking, of_service, &health)
                .error_code(),
            StatusCode::NOT_FOUND);
  ExpectGood();
  index_may_go_.set_value();
  for (int i = 1; i < kCalls; ++i) {
    void* tag = nullptr;
    ASSERT_TRUE(done.Next(&tag, &ok));
    EXPECT_TRUE(static_cast<Call*>(tag)->status.ok());
  }
}

TEST_F(GrpcTransportTest, AnIdleStreamOfReflectionIsEndedWithTheServer) {
  grpc::CompletionQueue done;
  const auto next = [&done] {
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(done.Next(&tag, &ok));
    return ok;
  };
  grpc::ClientContext context;
  grpc::GenericStub stub(channel_);
  const auto stream = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &done);
  stream->StartCall(nullptr);
  ASSERT_TRUE(next());
  const grpc::Slice list_services(std::string("\x3a\x00", 2));
  stream->Write(grpc::ByteBuffer(&list_services, 1), nullptr);
  ASSERT_TRUE(next());
  grpc::ByteBuffer answer;
  stream->Read(&answer, nullptr);
  ASSERT_TRUE(next());
  transport_->Shutdown(std::chrono::hours(1));  // which nobody waits for
  grpc::Status status;
  stream->Finish(&status, nullptr);
  next();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), "the server is shutting down");
}

// L3
TEST_F(GrpcTransportTest, AnAddressThatCannotBeHadIsAnErrorThatNamesItAndWhy) {
  const auto second = GrpcTransport::Start({.address = transport_->address()}, sinks_, kserve_,
                                           latency_, refusals_, clock_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(std::string(second.status().message()),
            "--grpc-address " + transport_->address() + " cannot be bound: Address already in use");
  const auto nowhere = GrpcTransport::Start({.address = "192.0.2.1:0"}, sinks_, kserve_, latency_,
                                            refusals_, clock_);
  EXPECT_EQ(std::string(nowhere.status().message()),
            "--grpc-address 192.0.2.1:0 cannot be bound: Cannot assign requested address");
  ExpectGood();
}

}  // namespace
}  // namespace cellbatch
