// Starting and stopping the real server (serving.md 4.4, L).
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>

#include "gtest/gtest.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;

// Long enough to be still running when the next thing happens: 60,000 steps.
inference::ModelInferRequest LongRequest() { return Words(std::vector<int32_t>(60000, 1)); }

class LifecycleFaultTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { repository_ = new std::string(FaultRepository()); }
  static void TearDownTestSuite() { delete repository_; }
  static std::unique_ptr<ServerProcess> Serving(std::vector<std::string> flags = {}) {
    flags.push_back("--devices=cpu:0");
    return ServerProcess::Serving(*repository_, std::move(flags));
  }
  // Waits until the server says that so many requests are in flight.
  static void WaitForInFlight(const ServerProcess& server, int requests) {
    while (Metric(server, "cellbatch_admitted_requests") != requests) std::this_thread::yield();
  }
  // A server that does not come up: its exit code, and one line that says why.
  static void ExpectNoStart(std::vector<std::string> flags, const std::string& text) {
    ServerProcess server(std::move(flags));
    EXPECT_FALSE(server.WaitUntilReady());
    EXPECT_GT(server.Wait(), 0) << text;
    EXPECT_NE(server.Log().find(text), std::string::npos) << server.Log() << "\nexpected: " << text;
  }
  static std::vector<std::string> Flags(const std::string& repository) {
    return {"--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
            "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0", "--devices=cpu:0"};
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

TEST_F(LifecycleFaultTest, L1StoppedUnderLoadItAnswersWhatItAcceptedAndIsNotReadyAtOnce) {
  // The first signal leaves an hour for load balancers, in which it serves on, not ready.
  const auto server = Serving({"--drain-delay=1h"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  EXPECT_EQ(HttpGet(server->http(), "/v2/health/ready"), "200 ready\n");
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      inference::ModelInferResponse answer;
      const grpc::Status status = caller.Infer(LongRequest(), answer);
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (status.ok()) ++answered;
    });
  }
  WaitForInFlight(*server, 4);
  server->Signal(SIGTERM);
  while (HttpGet(server->http(), "/v2/health/ready") != "503 not ready\n")
    std::this_thread::yield();
  EXPECT_EQ(HttpGet(server->http(), "/v2/health/live"), "200 live\n");
  ExpectGood(caller);
  // A second one ends the delay; the accepted ones still finish, new ones do not begin.
  server->Signal(SIGTERM);
  grpc::Status refused;
  do {
    inference::ModelInferResponse answer;
    refused = caller.Infer(Words({1}), answer);
  } while (refused.ok());
  EXPECT_EQ(refused.error_code(), StatusCode::UNAVAILABLE) << refused.error_message();
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(answered, 4);
  EXPECT_EQ(server->Wait(), 0) << server->Log();
}

TEST_F(LifecycleFaultTest, L1StoppedWhileLoadingItExitsWithZero) {
  // A model that takes a while: the signal comes when the address is open and the models are not.
  const std::string repository = NewRepository();
  AddModel(repository, {.name = "large", .hidden = 512, .width = 256, .vocabulary = 3000});
  std::vector<std::string> flags = Flags(repository);
  flags.push_back("--log-level=debug");
  ServerProcess server(flags);
  while (server.Log().find("loading") == std::string::npos) std::this_thread::yield();
  server.Signal(SIGTERM);
  EXPECT_EQ(server.Wait(), 0) << server.Log();
}

TEST_F(LifecycleFaultTest, L2WhatIsNotDoneWhenTheDrainEndsIsUnavailable) {
  const auto server = Serving({"--drain-timeout=0"});
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  grpc::Status status;
  std::thread client([&] {
    inference::ModelInferResponse answer;
    status = caller.Infer(LongRequest(), answer);
  });
  WaitForInFlight(*server, 1);
  server->Signal(SIGTERM);
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
  EXPECT_EQ(server->Wait(), 1) << server->Log();
}

TEST_F(LifecycleFaultTest, L3BadFlagsAndAddresses) {
  ExpectNoStart({"--no-such-flag"}, "unknown flag --no-such-flag");
  ExpectNoStart({}, "--model-repository is missing");
  std::vector<std::string> flags = Flags(*repository_);
  flags.push_back("--devices=gpu");
  ExpectNoStart(flags, "gpu");
  const auto server = Serving();
  ASSERT_NE(server, nullptr);
  flags = Flags(*repository_);
  for (const auto& [flag, address] : {std::pair("grpc", server->grpc()),
                                      {"http", server->http()},
                                      {"metrics", server->metrics()}}) {
    flags.push_back(std::string("--") + flag + "-address=" + address);
    ExpectNoStart(flags, std::string("--") + flag + "-address " + address + " cannot be bound");
    flags.pop_back();
  }
  GrpcCaller caller(server->grpc());
  ExpectGood(caller);
}

TEST_F(LifecycleFaultTest, L3RepositoriesThatCannotBeServed) {
  namespace fs = std::filesystem;
  ExpectNoStart(Flags(*repository_ + "/nowhere"), "nowhere");
  const auto broken = [](const std::string& text, auto damage) {
    const std::string repository = NewRepository();
    AddModel(repository, kWords);
    damage(repository + "/words");
    ExpectNoStart(Flags(repository), text);
  };
  broken("config.textproto", [](const std::string& model) {
    std::ofstream(model + "/config.textproto") << "cell_types { name: \n";
  });
  const auto weights = [](const std::string& model) { return model + "/1/weights.safetensors"; };
  broken("weights.safetensors",
         [&](const std::string& model) { fs::resize_file(weights(model), 500); });
  broken("weights.safetensors", [&](const std::string& model) {
    std::fstream(weights(model), std::ios::in | std::ios::out) << std::string(64, '\xff');
  });
  broken("weights.safetensors", [&](const std::string& model) { fs::remove(weights(model)); });
  broken("words", [&](const std::string& model) {  // NaN at the end of the data
    std::fstream file(weights(model), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);
    file.write("\0\0\xc0\x7f", 4);
  });
  broken("words", [&](const std::string& model) {  // another model's weights: wrong shapes
    const std::string other = NewRepository();
    AddModel(other, kVectors);
    fs::copy_file(other + "/vectors/1/weights.safetensors", weights(model),
                  fs::copy_options::overwrite_existing);
  });
}

TEST_F(LifecycleFaultTest, L8AKilledServerIsUnavailableToItsClientsAtOnce) {
  const auto server = Serving();
  ASSERT_NE(server, nullptr);
  GrpcCaller caller(server->grpc());
  grpc::Status status;
  std::thread client([&] {
    inference::ModelInferResponse answer;
    status = caller.Infer(LongRequest(), answer);
  });
  WaitForInFlight(*server, 1);
  server->Signal(SIGKILL);
  client.join();
  EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE) << status.error_message();
}

}  // namespace
}  // namespace cellbatch
