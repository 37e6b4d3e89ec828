// A user complains and has an id, nothing else. From it alone: the one line of the log, by the line the one counter that went
// up, and the one trace, which is found by the id too, in the collector. Over every way of asking, and of several outcomes.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
#include "tests/e2e/trace_collector.h"
#include "tests/fault/metrics_page.h"
#include "tests/fault/served_models.h"

namespace cellbatch {
namespace {

constexpr const char* kIdName = "cellbatch-request-id";
constexpr int32_t kUnknownWord = 173;

class FoundByIdTest : public ::testing::Test {
 protected:
  void SetUp() override {
    AddModel(repository_, kWords);
    AddModel(repository_, kSlow);
    server_ = ServerProcess::Serving(
        repository_, {"--log-format=json", "--log-failed-requests=1000",
                      "--trace-otlp=" + collector_.url(), "--max-queued-cells=100000"});
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel(server_->grpc(), grpc::InsecureChannelCredentials());
    kserve_ = inference::GRPCInferenceService::NewStub(channel_);
    typed_ = v1::Cellbatch::NewStub(channel_);
  }
  // The lines of that id, once there is one.
  std::vector<nlohmann::json> LinesOf(const std::string& id) const {
    std::vector<nlohmann::json> found;
    while (found.empty()) {
      std::istringstream lines(server_->Log());
      for (std::string line; std::getline(lines, line);) {
        const auto json = nlohmann::json::parse(line, nullptr, false);
        if (json.is_object() && json.value("id", "") == id) found.push_back(json);
      }
      std::this_thread::yield();
    }
    return found;
  }
  // The one sample that a line names: a model that is none of ours is counted under none.
  static double CountedBy(const nlohmann::json& line, const MetricsPage& page) {
    const std::string model = line.value("code", "") == "NOT_FOUND" ? "" : line.value("model", "");
    return page.Sum("cellbatch_requests_total",
                    {fmt::format("model=\"{}\"", model),
                     fmt::format("outcome=\"{}\"", line.value("outcome", "?"))});
  }
  // Of all spans that have come, those that say that id.
  std::vector<otlp::Span> SpansOf(const std::string& id) {
    std::vector<otlp::Span> found;
    for (const otlp::Span& span : collector_.WaitForSpans(0)) {
      const otlp::AnyValue* const value = AttributeOf(span, "cellbatch.request_id");
      if (value != nullptr && value->string_value() == id) found.push_back(span);
    }
    return found;
  }
  // `before`: what was counted before the request was made.
  void ExpectFound(const std::string& id, const MetricsPage& before, const std::string& outcome) {
    SCOPED_TRACE("id " + id);
    ASSERT_NE(id, "") << "its client was told none";
    const std::vector<nlohmann::json> lines = LinesOf(id);
    ASSERT_EQ(lines.size(), 1U);
    const nlohmann::json& line = lines[0];
    EXPECT_EQ(line.value("outcome", ""), outcome) << line;
    const MetricsPage after(*server_);
    EXPECT_EQ(CountedBy(line, after) - CountedBy(line, before), 1) << line;
    const std::string trace = line.value("trace", "");
    ASSERT_EQ(trace.size(), 32U) << line;
    collector_.WaitForSpans(1, trace);
    const std::vector<otlp::Span> spans = SpansOf(id);
    ASSERT_EQ(spans.size(), 1U);
    EXPECT_EQ(DigitsOf(spans[0].trace_id()), trace);
    // A call of many that was answered says how many of them failed.
    const bool of_many = line.contains("input");
    EXPECT_EQ(AttributeOf(spans[0], "cellbatch.outcome")->string_value(), of_many ? "ok" : outcome);
    const otlp::AnyValue* const failed = AttributeOf(spans[0], "cellbatch.failed_requests");
    EXPECT_EQ(failed == nullptr ? 0 : failed->int_value(), 1);
    EXPECT_EQ(spans[0].name(), "cellbatch " + line.value("wire", "?"));
  }
  static std::string IdOf(const grpc::ClientContext& context) {
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto found = metadata.find(kIdName);
    return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
  }
  std::string Post(const std::string& path, const std::string& body) const {
    TcpConnection connection(server_->http());
    connection.Send(
        fmt::format("POST {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: "
                    "{}\r\n\r\n{}",
                    path, body.size(), body));
    const std::string reply = connection.ReceiveUntil("");
    const std::string header = fmt::format("\r\n{}: ", kIdName);
    const size_t at = reply.find(header);
    if (at == reply.npos) return "";
    const size_t begin = at + header.size();
    return reply.substr(begin, reply.find("\r\n", begin) - begin);
  }

  const std::string repository_ = NewRepository();
  TraceCollector collector_;
  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> kserve_;
  std::unique_ptr<v1::Cellbatch::Stub> typed_;
};

TEST_F(FoundByIdTest, OverGrpcWhateverTheOutcome) {
  const auto infer = [&](const inference::ModelInferRequest& request, const std::string& outcome) {
    const MetricsPage before(*server_);
    grpc::ClientContext context;
    inference::ModelInferResponse response;
    EXPECT_FALSE(kserve_->ModelInfer(&context, request, &response).ok());
    ExpectFound(IdOf(context), before, outcome);
  };
  infer(Words({1, kUnknownWord}), "invalid");
  infer(Words({1}, "nobody"), "invalid");
  infer(SlowRequest(2), "rejected");
  // Who gives up is told nothing, and has what it called the request itself.
  const MetricsPage before(*server_);
  inference::ModelInferRequest given_up = SlowRequest();
  given_up.set_id("given up");
  grpc::ClientContext context;
  inference::ModelInferResponse response;
  std::thread caller(
      [&] { EXPECT_FALSE(kserve_->ModelInfer(&context, given_up, &response).ok()); });
  while (MetricsPage(*server_).Running() == 0) std::this_thread::yield();
  context.TryCancel();
  caller.join();
  ExpectFound("given up", before, "cancelled");
}

TEST_F(FoundByIdTest, OnAStreamAndInTypedCalls) {
  {
    const MetricsPage before(*server_);
    grpc::ClientContext context;
    const auto stream = kserve_->ModelStreamInfer(&context);
    ASSERT_TRUE(stream->Write(Words({1, kUnknownWord})));
    inference::ModelStreamInferResponse answer;
    ASSERT_TRUE(stream->Read(&answer));
    EXPECT_NE(answer.error_message(), "");
    ExpectFound(answer.infer_response().parameters().at(kIdName).string_param(), before, "invalid");
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }
  {
    const MetricsPage before(*server_);
    grpc::ClientContext context;
    v1::InferRequest request;
    request.set_model_name("words");
    for (const int token : {1, kUnknownWord, 2}) {
      request.add_inputs()->mutable_sequence()->add_tokens(token);
    }
    v1::InferResponse response;
    EXPECT_TRUE(typed_->Infer(&context, request, &response).ok());
    ExpectFound(IdOf(context), before, "invalid");
  }
  const MetricsPage before(*server_);
  grpc::ClientContext context;
  v1::DecodeRequest request;
  request.set_model_name("words");
  const auto reader = typed_->Decode(&context, request);
  v1::DecodeResponse response;
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_FALSE(reader->Finish().ok());
  ExpectFound(IdOf(context), before, "invalid");
}

TEST_F(FoundByIdTest, OverHttpByAnIdThatWasMadeHereAndByOneOfItsOwn) {
  const std::string body =
      fmt::format(R"("inputs":[{{"name":"TOKENS","shape":[1],"datatype":"INT32","data":[{}]}}]}})",
                  kUnknownWord);
  for (const std::string id : {"", R"("id":"order 66",)"}) {
    const MetricsPage before(*server_);
    const std::string told = Post("/v2/models/words/infer", "{" + id + body);
    EXPECT_EQ(told == "order 66", !id.empty()) << told;
    ExpectFound(told, before, "invalid");
  }
}

}  // namespace
}  // namespace cellbatch
