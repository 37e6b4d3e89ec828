// Against a server in this process that answers after a set delay. No assertion reads a clock: a
// delay is either nothing or longer than any test may take.

#include "client/client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/messages.h"
#include "client/null_server.h"

namespace cellbatch {
namespace {

constexpr std::chrono::nanoseconds kNever = std::chrono::hours(10);

struct Pair {
  std::unique_ptr<NullServer> server;
  std::unique_ptr<Client> client;
};

Pair StartPair(NullServerOptions options = {}) {
  Pair pair;
  pair.server = *NullServer::Start(std::move(options));
  pair.client = *Client::Connect({.url = pair.server->address()});
  return pair;
}

// gRPC 1.51 keeps one completion queue for the callbacks of all channels and servers of a process. Now and
// then it frees something of that twice when the last of them goes and another comes at once, as here
// from test to test; a call that stays keeps it.
const Pair& KeepsTheCallbackQueue() {
  static const Pair* const pair = [] {
    auto* kept = new Pair(StartPair());
    (void)kept->client->Infer({"null", "", "7", {Int32Tensor("TOKENS", {1}, {1})}, {}, {}});
    return kept;
  }();
  return *pair;
}

class ClientTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { KeepsTheCallbackQueue(); }
};

InferInput Tokens(std::vector<int32_t> tokens) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  return {"null", "", "7", {Int32Tensor("TOKENS", {length}, tokens)}, {}, {}};
}

void WaitForRequests(const NullServer& server, int64_t count) {
  while (server.requests() < count) {
    std::this_thread::yield();
  }
}

TEST_F(ClientTest, AnAnswerCarriesIdVersionAndTensors) {
  Pair pair = StartPair();
  const auto result = pair.client->Infer(Tokens({1, 2, 39}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->id, "7");
  EXPECT_EQ(result->version, "1");
  ASSERT_NE(result->Find("OUTPUT"), nullptr);
  EXPECT_EQ(*result->Find("OUTPUT")->AsFloats(), (std::vector<float>{3, 42}));
  EXPECT_EQ(result->Find("NOTHING"), nullptr);
}

TEST_F(ClientTest, AnErrorKeepsTheServersCodeAndText) {
  Pair pair = StartPair({.vocabulary_size = 30});
  const auto result = pair.client->Infer(Tokens({1, 30}));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(result.status().message()), "token 1 is 30, the vocabulary ends at 29");
}

TEST_F(ClientTest, NoServerIsUnavailableAndNamesTheAddress) {
  const auto client =
      Client::Connect({.url = "127.0.0.1:1", .connect_timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(std::string(client.status().message()),
            "no server answers at 127.0.0.1:1 within 50 ms: ipv4:127.0.0.1:1: Failed to connect to "
            "remote host: Connection refused");
}

TEST_F(ClientTest, ADeadlineEndsACallThatIsNeverAnswered) {
  Pair pair = StartPair({.delay = kNever});
  const auto result = pair.client->Infer(Tokens({1}), {.timeout = std::chrono::milliseconds(5)});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ClientTest, ManyCallsInFlightEachGetTheirOwnAnswerOnce) {
  Pair pair = StartPair();
  constexpr int kCalls = 200;
  std::vector<std::promise<absl::StatusOr<InferResult>>> answers(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    pair.client->InferAsync(Tokens({i}), {}, [&answers, i](absl::StatusOr<InferResult> result) {
      answers[i].set_value(std::move(result));
    });
  }
  for (int i = 0; i < kCalls; ++i) {
    const auto result = answers[i].get_future().get();
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ((*result->Find("OUTPUT")->AsFloats())[1], static_cast<float>(i));
  }
}

TEST_F(ClientTest, CancelEndsACallThatIsNeverAnswered) {
  Pair pair = StartPair({.delay = kNever});
  std::promise<absl::StatusOr<InferResult>> answer;
  const Call call = pair.client->InferAsync(
      Tokens({1}), {},
      [&answer](absl::StatusOr<InferResult> result) { answer.set_value(std::move(result)); });
  WaitForRequests(*pair.server, 1);
  call.Cancel();
  EXPECT_EQ(answer.get_future().get().status().code(), absl::StatusCode::kCancelled);
}

TEST_F(ClientTest, CancellingLateOrTwiceOrNothingIsHarmless) {
  Pair pair = StartPair();
  std::promise<absl::StatusOr<InferResult>> answer;
  const Call call = pair.client->InferAsync(
      Tokens({1}), {},
      [&answer](absl::StatusOr<InferResult> result) { answer.set_value(std::move(result)); });
  EXPECT_TRUE(answer.get_future().get().ok());
  call.Cancel();
  call.Cancel();
  Call().Cancel();
  EXPECT_TRUE(pair.client->Infer(Tokens({1})).ok());
}

TEST_F(ClientTest, TheDestructorWaitsForCallbacks) {
  Pair pair = StartPair({.delay = kNever});
  bool called = false;
  const Call call = pair.client->InferAsync(Tokens({1}), {}, [&called](auto) { called = true; });
  WaitForRequests(*pair.server, 1);
  call.Cancel();
  pair.client.reset();
  EXPECT_TRUE(called);
}

TEST_F(ClientTest, TheServerDescribesItself) {
  Pair pair = StartPair({.vocabulary_size = 123});
  const auto health = pair.client->Health();
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_TRUE(health->live && health->ready);
  EXPECT_EQ(health->serving, "SERVING");
  EXPECT_EQ(pair.client->Server()->extensions, std::vector<std::string>{"statistics"});
  const auto metadata = pair.client->Metadata("null");
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->inputs[0].name, "TOKENS");
  EXPECT_EQ(metadata->inputs[0].shape, std::vector<int64_t>{-1});
  const auto config = pair.client->Config("null");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->parameters.at("vocabulary_size"), "123");
  EXPECT_NE(config->json.find("\"max_batch_size\": 0"), std::string::npos) << config->json;
  EXPECT_EQ(pair.client->Metadata("other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(*pair.client->ModelReady("null"));
}

TEST_F(ClientTest, CountsAndLatenciesAreRead) {
  Pair pair = StartPair();
  ASSERT_TRUE(pair.client->Infer(Tokens({1})).ok());
  const auto counts = pair.client->Statistics("null");
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ((*counts)[0].inferences, 1u);
  EXPECT_EQ((*pair.client->RepositoryIndex())[0].state, "READY");
  const auto times = pair.client->Latency("null", "1", 10);
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ((*times)[0].phases[0].phase, "request");
  EXPECT_EQ((*times)[0].phases[0].count, 1u);
  EXPECT_TRUE(absl::IsNotFound(pair.client->Latency("null", "2", 10).status()));
}

TEST(MessagesTest, ParametersKeepTheirKind) {
  InferInput input = Tokens({1});
  input.parameters = {{"a", true}, {"b", int64_t{3}}, {"c", std::string("x")}, {"d", 0.5}};
  const auto request = ToMessage(input);
  EXPECT_TRUE(request.parameters().at("a").bool_param());
  EXPECT_EQ(request.parameters().at("b").int64_param(), 3);
  EXPECT_EQ(request.parameters().at("c").string_param(), "x");
  EXPECT_EQ(request.parameters().at("d").double_param(), 0.5);
}

TEST(MessagesTest, AnAnswerWithoutTheBytesItClaimsIsAnInternalError) {
  inference::ModelInferResponse response;
  response.add_outputs()->set_name("OUTPUT");
  EXPECT_EQ(FromMessage(response).status().code(), absl::StatusCode::kInternal);
  response.mutable_outputs(0)->set_datatype("FP32");
  response.mutable_outputs(0)->add_shape(2);
  response.add_raw_output_contents("1234");
  EXPECT_EQ(FromMessage(response).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace cellbatch
