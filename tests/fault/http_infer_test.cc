// Inference over HTTP from clients that mean ill or go away (issue 14): every damage is refused by name, whoever hangs up is
// cancelled, and what is computed has the bits of gRPC's answer.
#include <cstring>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/fault_test.h"
#include "tests/fault/metrics_page.h"

namespace cellbatch {
namespace {

std::string Infer(const std::string& model, const std::string& body,
                  const std::string& headers = "") {
  return fmt::format(
      "POST /v2/models/{}/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}Content-Length: "
      "{}\r\n\r\n{}",
      model, headers, body.size(), body);
}

std::string Tokens(const std::vector<int32_t>& tokens) {
  return fmt::format(
      R"({{"inputs":[{{"name":"TOKENS","shape":[{}],"datatype":"INT32","data":[{}]}}],)"
      R"("outputs":[{{"name":"OUTPUT","parameters":{{"binary_data":true}}}}]}})",
      tokens.size(), fmt::join(tokens, ","));
}

// In two bytes a step.
std::string SlowBody(int steps = kSlowSteps) {
  std::string ones;
  for (int i = 0; i < steps; ++i) ones += i == 0 ? "1" : ",1";
  return fmt::format(
      R"({{"inputs":[{{"name":"TOKENS","shape":[{}],"datatype":"INT32","data":[{}]}}]}})", steps,
      ones);
}
std::string PieceOfSeven(std::string body, const std::string& start = "") {
  return body.insert(1, fmt::format(R"("parameters":{{"sequence_id":7{}}},)", start));
}

class HttpInferFaultTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    const std::string repository = FaultRepository();
    AddModel(repository, kSlow);
    Serve(repository, {"--devices=cpu:0", "--batch-limit=4", "--http-max-body-bytes=1MiB",
                       "--grpc-max-numbers=100000", "--grpc-max-texts=1000"});
  }
  static std::string Ask(const std::string& request) {
    TcpConnection client(server_->http());
    client.Send(request);
    return client.ReceiveUntil("");
  }
  static void ExpectError(const std::string& reply, int status, const std::string& text) {
    EXPECT_TRUE(reply.starts_with(fmt::format("HTTP/1.1 {} ", status))) << reply;
    EXPECT_NE(reply.find(R"({"error":")"), reply.npos) << reply;
    EXPECT_NE(reply.find(text), reply.npos) << reply;
  }
};

TEST_F(HttpInferFaultTest, AnAnswerHasTheBitsOfGrpcs) {
  const std::vector<int32_t> tokens = {5, 99, 0, 42, 17};
  inference::ModelInferResponse over_grpc;
  ASSERT_TRUE(caller_->Infer(Words(tokens), over_grpc).ok());
  const std::string reply = Ask(Infer("words", Tokens(tokens)));
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply;
  EXPECT_TRUE(reply.ends_with(over_grpc.raw_output_contents(0)));
}

TEST_F(HttpInferFaultTest, EveryDamageIsRefusedByName) {
  ExpectError(Ask(Infer("words", "{\"inputs\":")), 400, "malformed JSON");
  ExpectError(Ask(Infer("words", "{}")), 400, "TOKENS");
  ExpectError(Ask(Infer("words", Tokens({100}))), 400, "vocabulary");
  ExpectError(Ask(Infer("words", Tokens({1}), "Content-Encoding: gzip\r\n")), 415, "gzip");
  ExpectError(Ask(Infer("words", Tokens({1}), "Inference-Header-Content-Length: 4000000000\r\n")),
              400, "Inference-Header-Content-Length");
  ExpectError(Ask(Infer("nobody", Tokens({1}))), 404, "nobody");
  ExpectError(Ask(Infer("words/versions/7", Tokens({1}))), 404, "7");
  ExpectError(Ask(Infer("broken%2F..%2Fwords", Tokens({1}))), 400, "no name of a model");
  ExpectError(Ask(Infer("words", R"({"inputs":[{"name":"TOKENS","shape":[4294967296,4294967296],)"
                                 R"("datatype":"INT32","data":[1]}]})")),
              400, "dimension");
  ExpectError(Ask(Infer("words", std::string(2 << 20, ' '))), 413,
              "2097152 bytes, the most is 1048576 (--http-max-body-bytes)");
  ExpectError(Ask(Infer("words", "", "X: " + std::string(9000, 'x') + "\r\n")), 431,
              "--http-max-header-bytes");
}

// Clients of KServe's protocol read every answer below /v2 as JSON.
TEST_F(HttpInferFaultTest, APathOfTheProtocolThatIsNoneIsAnErrorInJson) {
  ExpectError(Ask(Infer("", Tokens({1}))), 404, "/v2/models//infer");
  ExpectError(Ask(Infer("../words", Tokens({1}))), 404, "/v2/models/../words/infer");
  ExpectError(Ask("GET /v2/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), 404,
              "/v2/models");
  const std::string page = Ask("POST /v1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(page.starts_with("HTTP/1.1 405")) << page;
  EXPECT_NE(page.find("Allow: GET, HEAD\r\n"), page.npos) << page;
}

TEST_F(HttpInferFaultTest, AClientThatHangsUpIsCancelledInTheMiddle) {
  const MetricsPage before(*server_);
  {
    const TcpConnection client(server_->http());
    ASSERT_TRUE(client.Send(Infer("slow", SlowBody())));
    WaitForPage(*server_,
                [&](const MetricsPage& page) { return page.Steps("slow") > before.Steps("slow"); });
  }
  const MetricsPage after = WaitUntilEmpty(*server_);
  EXPECT_LT(after.Steps("slow") - before.Steps("slow"), kSlowSteps);
  EXPECT_EQ(after.Ended("cancelled") - before.Ended("cancelled"), 1);
}

// It ends there and then, and not on the loop, which has everybody's sockets.
TEST_F(HttpInferFaultTest, AClientThatHangsUpWhileItsPieceWaitsForItsTurnCostsNobodyElseAnything) {
  constexpr int kHeld = 12000;  // steps: enough for the others to come meanwhile
  const MetricsPage before(*server_);
  const auto wait_for_admitted = [&](int requests) {
    WaitForPage(*server_, [&](const MetricsPage& page) {
      return (page.Admitted() == requests && page.Running() == 1) ||
             page.Steps("slow") - before.Steps("slow") >= kHeld;
    });
  };
  TcpConnection first(server_->http());
  ASSERT_TRUE(
      first.Send(Infer("slow", PieceOfSeven(SlowBody(kHeld), R"(,"sequence_start":true)"))));
  wait_for_admitted(1);
  for (int cancelled = 1; cancelled <= 3; ++cancelled) {
    {
      const TcpConnection second(server_->http());
      ASSERT_TRUE(second.Send(Infer("slow", PieceOfSeven(SlowBody(1)))));
      wait_for_admitted(2);
    }
    WaitForPage(*server_, [&](const MetricsPage& page) {
      return page.Ended("cancelled") - before.Ended("cancelled") == cancelled;
    });
    ASSERT_EQ(HttpGet(server_->http(), "/v2/health/live"), kLiveAnswer);
  }
  TcpConnection behind(server_->http());
  ASSERT_TRUE(behind.Send(Infer("slow", PieceOfSeven(SlowBody(1)))));
  wait_for_admitted(2);
  const MetricsPage after = WaitUntilEmpty(*server_);
  EXPECT_EQ(after.Ended("ok") - before.Ended("ok"), 1);
  EXPECT_EQ(after.Ended() - before.Ended(), 5) << "each once";
  const std::string reply = first.ReceiveUntil("");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n")) << reply;
  ExpectError(behind.ReceiveUntil(""), 409, "sequence 7: a piece before this one failed");
}

TEST_F(HttpInferFaultTest, ATimeoutEndsItInTheMiddle) {
  const MetricsPage before(*server_);
  std::string body = SlowBody();
  body.insert(1, R"("parameters":{"timeout":300000},)");
  ExpectError(Ask(Infer("slow", body)), 504, "slow");
  const MetricsPage after = WaitUntilEmpty(*server_);
  EXPECT_EQ(after.Ended("deadline") - before.Ended("deadline"), 1);
}

// A megabyte of opened lists, of empty inputs, of dimensions: each meets its bound, and others are answered.
TEST_F(HttpInferFaultTest, WhatGrowsWhenItIsReadMeetsItsBound) {
  const auto many = [](const std::string& piece, size_t bytes) {
    std::string all;
    while (all.size() + piece.size() < bytes) all += piece;
    return all;
  };
  constexpr size_t kBytes = 1'000'000;
  ExpectError(Ask(Infer("words", R"({"inputs":[{"data":)" + many("[", kBytes))), 400, "nested");
  ExpectError(Ask(Infer("words", R"({"inputs":[)" + many("{},", kBytes))), 400, "more than");
  ExpectError(Ask(Infer("words", R"({"outputs":[)" + many("{},", kBytes))), 400, "more than");
  ExpectError(Ask(Infer("words", R"({"inputs":[{"name":"TOKENS","shape":[)" + many("1,", kBytes))),
              400, "more than");
}

// The flags that bound what a message over gRPC contains bound it here, too.
TEST_F(HttpInferFaultTest, WhatAMessageMayContainIsBoundedAsOverGrpc) {
  const auto refused = [](const std::string& reason) {
    return MetricsPage(*server_).Sum("cellbatch_messages_refused_total",
                                     {"reason=\"" + reason + "\""});
  };
  ExpectError(Ask(Infer("words", Tokens(std::vector<int32_t>(100'000, 1)))), 400,
              "the request has 100001 numbers or more, the most is 100000 (--grpc-max-numbers)");
  EXPECT_EQ(refused("numbers"), 1);
  std::string texts;
  for (int i = 0; i < 1000; ++i) texts += R"(,"")";
  ExpectError(Ask(Infer("words", R"({"inputs":[{"name":"TOKENS","datatype":"BYTES","data":["")" +
                                     texts + "]}]}")),
              400, "the request has 1001 texts or more, the most is 1000 (--grpc-max-texts)");
  EXPECT_EQ(refused("texts"), 1);
}

}  // namespace
}  // namespace cellbatch
