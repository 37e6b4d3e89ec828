#include "server/grpc/health.h"

#include <atomic>
#include <deque>
#include <thread>

#include "gtest/gtest.h"
#include "tests/testing/fake_transport.h"

namespace cellbatch {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using State = HealthCheckResponse::ServingStatus;

std::string Asking(const std::string& service) {
  HealthCheckRequest request;
  request.set_service(service);
  return request.SerializeAsString();
}

std::vector<State> Told(const FakeCall& call) {
  std::vector<State> told;
  for (const std::string& message : call.messages()) {
    HealthCheckResponse response;
    EXPECT_TRUE(response.ParseFromString(message));
    told.push_back(response.status());
  }
  return told;
}

class HealthTest : public ::testing::Test {
 protected:
  State Checked(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    const auto response = health_.Check(request);
    return response.ok() ? response->status() : HealthCheckResponse::SERVICE_UNKNOWN;
  }

  RefusalCounts refusals_;
  Health health_{{"inference.GRPCInferenceService"}, 2, WireLimits(), &refusals_};
};

TEST_F(HealthTest, CheckSaysTheStateOfEveryServiceThatIsKnown) {
  EXPECT_EQ(Checked(""), HealthCheckResponse::NOT_SERVING);
  health_.Set(true);
  EXPECT_EQ(Checked(""), HealthCheckResponse::SERVING);
  EXPECT_EQ(Checked("inference.GRPCInferenceService"), HealthCheckResponse::SERVING);
  EXPECT_EQ(Checked("inference.Other"), HealthCheckResponse::SERVICE_UNKNOWN);
}

TEST_F(HealthTest, AWatchIsToldTheStateAndEveryChangeOnce) {
  FakeCall server(Asking("")), unknown(Asking("inference.Other"));
  server.StartOn(health_);
  unknown.StartOn(health_);
  for (const bool serving : {true, true, false}) health_.Set(serving);
  EXPECT_EQ(Told(server),
            (std::vector<State>{HealthCheckResponse::NOT_SERVING, HealthCheckResponse::SERVING,
                                HealthCheckResponse::NOT_SERVING}));
  EXPECT_EQ(Told(unknown), std::vector<State>{HealthCheckResponse::SERVICE_UNKNOWN});
  server.CancelOn(health_);
  EXPECT_EQ(server.Wait().status.code(), absl::StatusCode::kCancelled);
  health_.Stop();
  EXPECT_EQ(unknown.Wait().status.code(), absl::StatusCode::kUnavailable);
  server.CancelOn(health_);  // too late: it has its answer
  EXPECT_EQ(server.answers(), 1);
}

TEST_F(HealthTest, WatchesAreBoundedAndAPlaceThatIsLeftIsFree) {
  FakeCall first(Asking("")), second(Asking("")), third(Asking("")), fourth(Asking(""));
  first.StartOn(health_);
  second.StartOn(health_);
  third.StartOn(health_);
  EXPECT_EQ(third.Wait().status,
            absl::ResourceExhaustedError("2 watches are open (--grpc-max-health-watches)"));
  EXPECT_EQ(refusals_.Of(Refused::kStreams), 1);
  first.CancelOn(health_);
  fourth.StartOn(health_);
  EXPECT_EQ(Told(fourth).size(), 1u);
  health_.Stop();
  FakeCall late(Asking(""));
  late.StartOn(health_);
  EXPECT_EQ(late.Wait().status.code(), absl::StatusCode::kUnavailable);
}

TEST_F(HealthTest, WhatIsNoQuestionIsRefused) {
  FakeCall call("\xff\xff\xff");
  call.StartOn(health_);
  EXPECT_EQ(call.Wait().status.code(), absl::StatusCode::kInvalidArgument);
}

// Changes, clients that come and go, and the end at once: for the thread sanitizer.
TEST(HealthRaceTest, EveryWatchEndsExactlyOnce) {
  RefusalCounts refusals;
  Health health({}, 1 << 20, WireLimits(), &refusals);
  std::atomic<bool> stop = false;
  std::thread changes([&] {
    for (bool serving = true; !stop; serving = !serving) health.Set(serving);
  });
  std::deque<FakeCall> calls;
  for (int i = 0; i < 500; ++i) {
    calls.emplace_back(Asking("")).StartOn(health);
    if (i % 2 == 0) calls.back().CancelOn(health);
  }
  health.Stop();
  stop = true;
  changes.join();
  for (FakeCall& call : calls) {
    call.Wait();
    EXPECT_EQ(call.answers(), 1);
  }
}

}  // namespace
}  // namespace cellbatch
