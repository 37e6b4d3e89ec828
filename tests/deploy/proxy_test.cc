// Through HAProxy with the shipped configuration (deploy/proxy) a client sees the server as it is without: bits, words as they
// come, errors with their hints, cancels and deadlines, health and reflection, and the end of it all.
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/cellbatch.grpc.pb.h"
#include "proto/health.grpc.pb.h"
#include "tests/deploy/proxy_process.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"
#include "tests/seq2seq/translators.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

class ProxyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    repository_ = new std::string(FaultRepository());
    AddModel(*repository_, kSlow);
    AddCounterModel(*repository_, {.largest = 60, .max_decode_steps = 1000});
  }
  static void TearDownTestSuite() { delete repository_; }
  void Serve(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> all = {"--devices=cpu:0", "--batch-limit=4"};
    all.insert(all.end(), flags.begin(), flags.end());
    server_ = ServerProcess::Serving(*repository_, all);
    ASSERT_NE(server_, nullptr);
    proxy_ = std::make_unique<ProxyProcess>(*server_);
    direct_ = std::make_unique<GrpcCaller>(server_->grpc());
    through_ = std::make_unique<GrpcCaller>(proxy_->grpc());
  }
  // From now on it may be gone at any time, and with it its page.
  void StopServer() {
    stopped_ = true;
    server_->Signal(SIGTERM);
  }
  // SIGTERM ends the server with 0, and what ends the proxy lets calls end.
  void TearDown() override {
    if (!stopped_) WaitUntilEmpty(*server_);
    direct_.reset();
    through_.reset();
    if (!stopped_) StopServer();
    EXPECT_EQ(server_->Wait(), 0) << server_->Log();
    proxy_->Signal(SIGUSR1);
    EXPECT_EQ(proxy_->Wait(), 0);
  }
  static std::vector<int32_t> Decoded(GrpcCaller& caller, int32_t from) {
    v1::DecodeRequest request;
    request.set_model_name("counter");
    request.mutable_source()->add_tokens(from);
    grpc::ClientContext context;
    const auto stub = v1::Cellbatch::NewStub(caller.channel());
    const auto reader = stub->Decode(&context, request);
    std::vector<int32_t> words;
    for (v1::DecodeResponse event; reader->Read(&event);) {
      if (event.has_word()) words.push_back(event.word().id());
    }
    EXPECT_TRUE(reader->Finish().ok());
    return words;
  }

  static std::string* repository_;
  std::unique_ptr<ServerProcess> server_;
  std::atomic<bool> stopped_ = false;
  std::unique_ptr<ProxyProcess> proxy_;
  std::unique_ptr<GrpcCaller> direct_, through_;
};
std::string* ProxyTest::repository_ = nullptr;

TEST_F(ProxyTest, AnswersHaveTheBitsThatTheyHaveWithoutIt) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  for (const int32_t steps : {1, 7, 5000, 60'000}) {  // the last two are more than its buffer holds
    inference::ModelInferRequest request = Words(std::vector<int32_t>(steps, 3));
    for (const char* output : {"OUTPUT", "ALL_HIDDEN"}) request.add_outputs()->set_name(output);
    inference::ModelInferResponse direct, through;
    ASSERT_TRUE(direct_->Infer(request, direct).ok());
    const grpc::Status status = through_->Infer(request, through);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(through.SerializeAsString(), direct.SerializeAsString()) << steps;
  }
  EXPECT_EQ(HttpGet(proxy_->http(), "/v2/models/words"),
            HttpGet(server_->http(), "/v2/models/words"));
}

TEST_F(ProxyTest, StreamedWordsAreThoseOfTheAnswer) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  for (const int32_t from : {0, 1, 60}) {
    const std::vector<int32_t> words = Decoded(*through_, from);
    EXPECT_EQ(words.size(), static_cast<size_t>(from));
    EXPECT_EQ(words, Decoded(*direct_, from));
  }
}

TEST_F(ProxyTest, CancelsAndDeadlinesReachTheServerInTheMiddle) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  grpc::ClientContext context;
  std::thread canceller([&] {
    WaitForPage(*server_, [](const MetricsPage& page) { return page.Steps("slow") > 0; });
    context.TryCancel();
  });
  inference::ModelInferResponse answer;
  EXPECT_EQ(through_->stub().ModelInfer(&context, SlowRequest(), &answer).error_code(),
            StatusCode::CANCELLED);
  canceller.join();
  MetricsPage page = WaitUntilEmpty(*server_);
  EXPECT_EQ(page.Ended("cancelled"), 1);
  EXPECT_LT(page.Steps("slow"), kSlowSteps);
  const double steps = page.Steps("slow");
  const grpc::Status late = through_->Infer(SlowRequest(), answer, [](grpc::ClientContext& c) {
    c.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  });
  EXPECT_EQ(late.error_code(), StatusCode::DEADLINE_EXCEEDED);
  // The client knows its deadline by itself, and may be first.
  page = WaitForPage(*server_, [](const MetricsPage& p) { return p.Empty() && p.Ended() == 2; });
  EXPECT_LT(page.Steps("slow") - steps, kSlowSteps);
}

TEST_F(ProxyTest, AnErrorComesWithItsTextAndItsHint) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--max-queued-cells=100"}));
  inference::ModelInferResponse answer;
  const grpc::Status wrong = through_->Infer(Words({100}), answer);
  EXPECT_EQ(wrong.error_code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(wrong.error_message().find("token 0 is 100"), std::string::npos);
  grpc::ClientContext context;
  const grpc::Status full =
      through_->stub().ModelInfer(&context, Words(std::vector<int32_t>(1000, 1)), &answer);
  EXPECT_EQ(full.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
}

TEST_F(ProxyTest, HealthIsWatchedReflectionAnswersAndADrainIsSeen) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--drain-delay=1h"}));
  const RawAnswer services = through_->Raw(
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {"\x3a\x01*"});
  EXPECT_TRUE(services.status.ok()) << services.status.error_message();
  EXPECT_NE(services.body.find("inference.GRPCInferenceService"), std::string::npos);
  grpc::ClientContext context;
  const auto watch = grpc::health::v1::Health::NewStub(through_->channel())->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  server_->Signal(SIGTERM);  // it serves on, until the second
  ASSERT_TRUE(watch->Read(&health)) << "news come while the call lasts";
  EXPECT_EQ(health.status(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(HttpGet(proxy_->at(8003), "/v2/health/ready"), kNotReadyAnswer);
  EXPECT_EQ(HttpGet(proxy_->at(8003), "/v2/health/live"), kLiveAnswer);
  context.TryCancel();
}

TEST_F(ProxyTest, ThePortForProbesAnswersNothingElse) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  EXPECT_EQ(HttpGet(proxy_->at(8003), "/v2/health/ready"), kReadyAnswer);
  for (const char* path : {"/", "/metrics", "/v2/models/words"}) {
    EXPECT_EQ(HttpGet(proxy_->at(8003), path).substr(0, 3), "404") << path;
  }
}

// A call that is under way when both are told to stop has its answer.
TEST_F(ProxyTest, WhatIsUnderWayWhenBothAreStoppedIsAnswered) {
  ASSERT_NO_FATAL_FAILURE(Serve());
  std::thread stopper([&] {
    WaitForPage(*server_, [](const MetricsPage& page) { return page.Steps("slow") > 0; });
    StopServer();
    proxy_->Signal(SIGUSR1);
  });
  inference::ModelInferResponse answer;
  const grpc::Status status = through_->Infer(Words(std::vector<int32_t>(2000, 1), "slow"), answer);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(FirstOutput(answer).size(), static_cast<size_t>(kSlow.hidden));
  stopper.join();
}

}  // namespace
}  // namespace cellbatch
