// A request that failed can be found by its id alone, over every way of asking: the id that its client is told stands in one
// line of the log, and the line names the counter that it went into.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "proto/cellbatch.grpc.pb.h"
#include "tests/e2e/server_process.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kSecret = "73";  // a token that no line may say

class FailedRequestsTest : public ::testing::Test {
 protected:
  void Serve(std::vector<std::string> flags) {
    AddModel(repository_, kWords);
    server_ = ServerProcess::Serving(repository_, std::move(flags));
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel(server_->grpc(), grpc::InsecureChannelCredentials());
  }
  // Of those of failed requests, the line with that id; waits for it.
  nlohmann::json LineOf(const std::string& id) const {
    while (true) {
      std::istringstream lines(server_->Log());
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_object() && json.value("id", "") == id) return json;
      }
      std::this_thread::yield();
    }
  }
  double Counted(const nlohmann::json& line) const {
    std::vector<std::string> labels = {
        fmt::format("outcome=\"{}\"", line.value("outcome", "")),
        fmt::format("model=\"{}\"",
                    line.value("code", "") == "NOT_FOUND" ? "" : line.value("model", ""))};
    return MetricsPage(*server_).Sum("cellbatch_requests_total", labels);
  }
  // By its id: a line of that way of asking, without payload, and a counter.
  void ExpectFound(const std::string& id, const std::string& wire) const {
    ASSERT_NE(id, "") << wire;
    const nlohmann::json line = LineOf(id);
    EXPECT_EQ(line["wire"], wire);
    EXPECT_EQ(line["outcome"], "invalid");
    EXPECT_GE(Counted(line), 1) << line;
    EXPECT_THAT(line.value("error", ""), Not(HasSubstr(kSecret))) << "payload";
    const std::string client = line.value("client", "");
    EXPECT_TRUE(client.starts_with("ipv4:127.0.0.1:") || client == "tenant acme") << client;
  }
  static std::string IdOf(const grpc::ClientContext& context) {
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto found = metadata.find("cellbatch-request-id");
    return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
  }
  // A reply with its head.
  std::string Post(const std::string& path, const std::string& body,
                   const std::string& headers = "") const {
    TcpConnection connection(server_->http());
    connection.Send(fmt::format(
        "POST {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}", path,
        headers, body.size(), body));
    return connection.ReceiveUntil("");
  }
  static std::string HeaderOf(const std::string& reply, const std::string& name) {
    const size_t at = reply.find("\r\n" + name + ": ");
    if (at == reply.npos) return "";
    const size_t begin = at + 2 + name.size() + 2;
    return reply.substr(begin, reply.find("\r\n", begin) - begin);
  }

  const std::string repository_ = NewRepository();
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(FailedRequestsTest, OverGrpcAndHttpAlikeTheIdThatTheClientIsToldFindsTheLineAndTheCounter) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--log-format=json", "--log-failed-requests=1000"}));
  std::vector<std::pair<std::string, std::string>> wires;  // id, wire
  {
    const auto stub = inference::GRPCInferenceService::NewStub(channel_);
    grpc::ClientContext context;
    context.AddMetadata("x-cellbatch-tenant", "acme");
    inference::ModelInferRequest request = Words({1, 173});
    request.set_id("my own");
    inference::ModelInferResponse response;
    EXPECT_EQ(stub->ModelInfer(&context, request, &response).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(IdOf(context), "my own");
    wires.emplace_back(IdOf(context), "grpc");
    EXPECT_EQ(LineOf("my own")["client"], "tenant acme");
  }
  const auto stub = v1::Cellbatch::NewStub(channel_);
  {
    grpc::ClientContext context;
    v1::InferRequest request;
    request.set_model_name("words");
    for (const int token : {1, 173, 2}) request.add_inputs()->mutable_sequence()->add_tokens(token);
    v1::InferResponse response;
    const grpc::Status status = stub->Infer(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.answers_size(), 3);
    EXPECT_NE(response.answers(1).code(), 0);
    wires.emplace_back(IdOf(context), "typed");
    EXPECT_EQ(LineOf(IdOf(context))["input"], 1);
  }
  {
    grpc::ClientContext context;
    context.AddMetadata("cellbatch-request-id", "decode-17");
    v1::DecodeRequest request;
    request.set_model_name("words");
    const auto reader = stub->Decode(&context, request);
    v1::DecodeResponse response;
    EXPECT_FALSE(reader->Read(&response));
    EXPECT_FALSE(reader->Finish().ok());
    EXPECT_EQ(IdOf(context), "decode-17");
    wires.emplace_back(IdOf(context), "decode");
  }
  {
    const std::string reply =
        Post("/v2/models/words/infer",
             R"({"inputs":[{"name":"TOKENS","shape":[1],"datatype":"INT32","data":[173]}]})");
    wires.emplace_back(HeaderOf(reply, "cellbatch-request-id"), "http");
    const std::string nobody =
        Post("/v2/models/nobody/infer", R"({"id":"n\u0001\r\nX: 1","inputs":[]})",
             "x-cellbatch-tenant: acme\r\n");
    EXPECT_THAT(nobody, Not(HasSubstr("\r\nX: 1")));
    wires.emplace_back(HeaderOf(nobody, "cellbatch-request-id"), "http");
    EXPECT_EQ(wires.back().first, "n\\001\\r\\nX: 1");
  }
  for (const auto& [id, wire] : wires) ExpectFound(id, wire);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  std::istringstream lines(server_->Log());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(nlohmann::json::parse(line, nullptr, false).is_object()) << line;
  }
}

TEST_F(FailedRequestsTest, AFloodFillsNoDiskAndSaysWhatItLeftOut) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-threads=1"}));  // one line a second, 60 at once
  const auto stub = inference::GRPCInferenceService::NewStub(channel_);
  constexpr int kCalls = 600;
  for (int i = 0; i < kCalls; ++i) {
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    EXPECT_FALSE(stub->ModelInfer(&context, Words({173}), &response).ok());
    EXPECT_EQ(IdOf(context).size(), 16u);
  }
  const MetricsPage page(*server_);
  const double written = page.Sum("cellbatch_failed_request_lines_total", {"what=\"written\""});
  const double left_out = page.Sum("cellbatch_failed_request_lines_total", {"what=\"left_out\""});
  EXPECT_EQ(page.Ended("invalid"), kCalls);
  EXPECT_GE(left_out, 1);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);
  std::istringstream log(server_->Log());
  double lines = 0;
  for (std::string line; std::getline(log, line);) {
    if (line.find(" request failed id=") != line.npos) ++lines;
  }
  EXPECT_GE(lines, written);
  EXPECT_EQ(lines + left_out, kCalls);
}

}  // namespace
}  // namespace cellbatch
