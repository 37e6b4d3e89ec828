// Starting and stopping the real server (serving.md 4.4, L).
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "gtest/gtest.h"
#include "proto/health.grpc.pb.h"
#include "server/service_manager.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"
#include "tests/testing/notify_socket.h"

namespace cellbatch {
namespace {

using ::cellbatch::testing::NotifySocket;
using grpc::StatusCode;

class LifecycleFaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    repository_ = new std::string(FaultRepository());
    AddModel(*repository_, kSlow);
  }
  static void TearDownTestSuite() { delete repository_; }
  static std::unique_ptr<ServerProcess> Serving(std::vector<std::string> flags = {}) {
    flags.push_back("--devices=cpu:0");
    return ServerProcess::Serving(*repository_, std::move(flags));
  }
  // Waits until the server says that so many requests are in flight.
  static void WaitForInFlight(const ServerProcess& server, int requests) {
    while (Metric(server, "cellbatch_admitted_requests") != requests) std::this_thread::yield();
  }
  // What HTTP, KServe, gRPC's health service and the metrics say, in this order.
  static std::vector<bool> Readiness(const ServerProcess& server, GrpcCaller& caller) {
    grpc::ClientContext ask, check;
    inference::ServerReadyResponse ready;
    EXPECT_TRUE(caller.stub().ServerReady(&ask, {}, &ready).ok());
    grpc::health::v1::HealthCheckResponse health;
    EXPECT_TRUE(
        grpc::health::v1::Health::NewStub(caller.channel())->Check(&check, {}, &health).ok());
    return {HttpGet(server.http(), "/v2/health/ready") == kReadyAnswer, ready.ready(),
            health.status() == grpc::health::v1::HealthCheckResponse::SERVING,
            Metric(server, "cellbatch_ready") == 1};
  }
  static std::string* repository_;
};
std::string* LifecycleFaultTest::repository_ = nullptr;

TEST_F(LifecycleFaultTest, L1StoppedWhileIdleItExitsWithZero) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const auto server = Serving();
    ASSERT_NE(server, nullptr);
    server->Signal(signal);
    EXPECT_EQ(server->Wait(), 0) << server->Log();
  }
}

// As systemd is told where a unit is of Type=notify (deploy/systemd).
TEST_F(LifecycleFaultTest, AServiceManagerHearsWhenItIsReadyAndWhenItStops) {
  constexpr std::chrono::minutes kPatience(1);
  const NotifySocket manager;
  const auto server = Serving({"--notify-socket=" + manager.name()});
  ASSERT_NE(server, nullptr);
  const std::string ready = manager.Heard(kPatience);
  EXPECT_EQ(ready.find("READY=1\nSTATUS={\"ready\":true,\"grpc\":\"" + server->grpc()), 0u)
      << ready;
  EXPECT_EQ(manager.Heard(), "");
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->Log();
  EXPECT_EQ(manager.Heard(kPatience), "STOPPING=1\nSTATUS=stopping: what was accepted is answered");
  EXPECT_EQ(manager.Heard(), "");
}

// systemd's queue may be full just then, and its unit would not come up.
TEST_F(LifecycleFaultTest, AServiceManagerWithoutRoomHearsThatItIsReadyOnceItReads) {
  constexpr std::chrono::minutes kPatience(1);
  const NotifySocket manager;
  const std::string others = "STATUS=of others";
  while (TellServiceManager(manager.name(), others).ok()) {
  }
  const auto server = Serving({"--notify-socket=" + manager.name()});
  ASSERT_NE(server, nullptr);
  while (server->Log().find("tried again until it is heard") == std::string::npos) {
    std::this_thread::yield();
  }
  std::string heard = others;
  while (heard == others) heard = manager.Heard(kPatience);
  EXPECT_EQ(heard.find("READY=1\nSTATUS={\"ready\":true,"), 0u) << heard;
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(), 0) << server->Log();
  EXPECT_EQ(manager.Heard(kPatience), "STOPPING=1\nSTATUS=stopping: what was accepted is answered")
      << "and is told once";
}

// SIGTERM or SIGINT, then the same again: not ready at once, serving on for the delay, then draining.
TEST_F(LifecycleFaultTest, L1StoppedUnderLoadItAnswersWhatItAcceptedAndIsNotReadyAtOnce) {
  for (const int signal : {SIGTERM, SIGINT}) {
    // The first signal leaves an hour for load balancers, in which it serves on, not ready.
    const auto server = Serving({"--batch-limit=4", "--drain-delay=1h", "--drain-timeout=1h"});
    ASSERT_NE(server, nullptr);
    GrpcCaller caller(server->grpc());
    EXPECT_EQ(Readiness(*server, caller), std::vector<bool>(4, true));
    std::vector<std::thread> clients;
    std::atomic<int> answered = 0;
    constexpr int kAccepted = 2, kSteps = 10'000;
    for (int i = 0; i < kAccepted; ++i) {
      clients.emplace_back([&] {
        inference::ModelInferResponse answer;
        const grpc::Status status =
            caller.Infer(Words(std::vector<int32_t>(kSteps, 1), "slow"), answer);
        EXPECT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(FirstOutput(answer).size(), static_cast<size_t>(kSlow.hidden));
        ++answered;
      });
    }
    WaitForInFlight(*server, kAccepted);
    server->Signal(signal);
    while (HttpGet(server->http(), "/v2/health/ready") != kNotReadyAnswer) {
      std::this_thread::yield();
    }
    EXPECT_EQ(Readiness(*server, caller), std::vector<bool>(4, false));
    EXPECT_EQ(HttpGet(server->http(), "/v2/health/live"), kLiveAnswer);
    ExpectGood(caller);
    // Its answer is counted out a moment after its client has it.
    const MetricsPage loaded =
        WaitForPage(*server, [](const MetricsPage& page) { return page.Admitted() <= kAccepted; });
    EXPECT_EQ(loaded.Admitted(), kAccepted) << "it was to be stopped under load";
    // A second one ends the delay; the accepted ones still finish, new ones do not begin.
    server->Signal(signal);
    grpc::Status refused;
    do {
      inference::ModelInferResponse answer;
      refused = caller.Infer(Words({1}), answer);
    } while (refused.ok());
    EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE);
    EXPECT_EQ(refused.error_message(), "the server is shutting down") << "its own word";
    const MetricsPage draining(*server);
    EXPECT_EQ(draining.Admitted(), kAccepted) << "they are there while it refuses others";
    EXPECT_EQ(draining.Sum("cellbatch_rejected_total", {R"(reason="draining")"}), 1);
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(answered, kAccepted);
    EXPECT_EQ(server->Wait(), 0) << server->Log();
  }
}

TEST_F(LifecycleFaultTest, L2WhatIsNotDoneWhenTheDrainEndsIsUnavailable) {
  const auto server = Serving({"--drain-timeout=0"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  grpc::Status status;
  std::thread client([&] {
    inference::ModelInferResponse answer;
    status = caller.Infer(SlowRequest(), answer);
  });
  // Admitted is not enough: admission counts first and looks second whether it is closed.
  WaitForPage(*server, [](const MetricsPage& page) { return page.Running() == 1; });
  server->Signal(SIGTERM);
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_NE(status.error_message().find("the server is stopping"), std::string::npos)
      << "its own word, not what a broken connection says: " << status.error_message();
  EXPECT_EQ(server->Wait(), 1) << server->Log();
}

TEST_F(LifecycleFaultTest, L8AKilledServerIsUnavailableToItsClientsAtOnce) {
  const auto server = Serving();
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  grpc::Status status;
  std::thread client([&] {
    inference::ModelInferResponse answer;
    status = caller.Infer(SlowRequest(), answer);
  });
  WaitForInFlight(*server, 1);
  server->Signal(SIGKILL);
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
}

}  // namespace
}  // namespace cellbatch
