// Traces as a collector gets them: of which requests, under whom, in which order; and that nobody waits for a collector.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>
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

using grpc::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kParent = "b7ad6b7169203331";
std::string TraceNumber(int i) { return fmt::format("{:032x}", 0xabcdef00 + i); }
std::string Traceparent(const std::string& trace, bool sampled = true) {
  return fmt::format("00-{}-{}-{}", trace, kParent, sampled ? "01" : "00");
}

class TracesTest : public ::testing::Test {
 protected:
  void Serve(std::vector<std::string> flags) {
    AddModel(repository_, kWords);
    flags.push_back("--trace-otlp=" + collector_.url());
    server_ = ServerProcess::Serving(repository_, std::move(flags));
    ASSERT_NE(server_, nullptr);
    stub_ = inference::GRPCInferenceService::NewStub(
        grpc::CreateChannel(server_->grpc(), grpc::InsecureChannelCredentials()));
  }
  // With that traceparent; empty: without.
  grpc::Status Infer(const std::string& traceparent, const std::vector<int32_t>& tokens,
                     const std::string& id, std::string* told = nullptr) {
    grpc::ClientContext context;
    if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
    inference::ModelInferRequest request = Words(tokens);
    request.set_id(id);
    inference::ModelInferResponse response;
    const grpc::Status status = stub_->ModelInfer(&context, request, &response);
    const auto& metadata = context.GetServerTrailingMetadata();
    const auto found = metadata.find("cellbatch-request-id");
    if (told != nullptr && found != metadata.end()) {
      *told = std::string(found->second.data(), found->second.size());
    }
    return status;
  }
  std::string Post(const std::string& path, const std::string& body,
                   const std::string& headers = "") const {
    TcpConnection connection(server_->http());
    connection.Send(
        fmt::format("POST {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}Content-Length: "
                    "{}\r\n\r\n{}",
                    path, headers, body.size(), body));
    return connection.ReceiveUntil("");
  }
  static std::string TextOf(const otlp::Span& span, const std::string& name) {
    const otlp::AnyValue* const value = AttributeOf(span, name);
    return value == nullptr ? "" : value->string_value();
  }
  static int64_t NumberOf(const otlp::Span& span, const std::string& name) {
    const otlp::AnyValue* const value = AttributeOf(span, name);
    return value == nullptr ? -1 : value->int_value();
  }

  const std::string repository_ = NewRepository();
  TraceCollector collector_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(TracesTest, ARequestIsASpanUnderItsCallersWithItsPhasesInOrderOverGrpcAndHttp) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  EXPECT_TRUE(Infer(Traceparent(TraceNumber(1)), {1, 2, 3}, "over grpc").ok());
  Post(
      "/v2/models/words/infer",
      R"({"id":"over http","inputs":[{"name":"TOKENS","shape":[3],"datatype":"INT32","data":[1,2,3]}]})",
      "traceparent: " + Traceparent(TraceNumber(2)) + "\r\n");
  for (int i = 1; i <= 2; ++i) {
    const std::vector<otlp::Span> spans = collector_.WaitForSpans(5, TraceNumber(i));
    ASSERT_EQ(spans.size(), 5u);
    const otlp::Span& request = spans[0];
    EXPECT_EQ(request.name(), i == 1 ? "cellbatch grpc" : "cellbatch http");
    EXPECT_EQ(request.kind(), otlp::Span::SPAN_KIND_SERVER);
    EXPECT_EQ(DigitsOf(request.parent_span_id()), kParent);
    EXPECT_EQ(TextOf(request, "cellbatch.request_id"), i == 1 ? "over grpc" : "over http");
    EXPECT_EQ(TextOf(request, "cellbatch.model"), "words");
    EXPECT_EQ(TextOf(request, "cellbatch.outcome"), "ok");
    EXPECT_EQ(request.status().code(), otlp::Status::STATUS_CODE_UNSET);
    std::vector<std::string> names;
    uint64_t last = request.start_time_unix_nano();
    for (size_t s = 1; s < spans.size(); ++s) {
      names.push_back(spans[s].name());
      EXPECT_EQ(spans[s].parent_span_id(), request.span_id());
      EXPECT_EQ(spans[s].start_time_unix_nano(), last) << "each begins where the last one ends";
      EXPECT_GE(spans[s].end_time_unix_nano(), spans[s].start_time_unix_nano());
      last = spans[s].end_time_unix_nano();
    }
    EXPECT_LE(last, request.end_time_unix_nano());
    EXPECT_THAT(names, ElementsAre("decode", "queue", "compute", "encode"));
    EXPECT_EQ(NumberOf(spans[3], "cellbatch.cell.lstm_l0.cells"), 3);
    EXPECT_GE(NumberOf(spans[3], "cellbatch.cell.lstm_l0.tasks"), 1);
  }
  EXPECT_THAT(collector_.head(), HasSubstr("POST /v1/traces HTTP/1.1\r\n"));
  EXPECT_THAT(collector_.head(), HasSubstr("Content-Type: application/x-protobuf"));
  ASSERT_GE(collector_.resource().attributes_size(), 1);
  EXPECT_EQ(collector_.resource().attributes(0).value().string_value(), "cellbatch");
}

TEST_F(TracesTest, AFailedRequestsLineTraceAndCounterAreFoundByItsIdAlone) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--log-format=json", "--log-failed-requests=1000"}));
  EXPECT_TRUE(Infer("", {1}, "").ok());  // the one in a thousand
  std::string made;
  EXPECT_EQ(Infer("", {173}, "", &made).error_code(), StatusCode::INVALID_ARGUMENT);
  std::string own;
  EXPECT_EQ(Infer(Traceparent(TraceNumber(3)), {173}, "my own", &own).error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Infer(Traceparent(TraceNumber(4), false), {173}, "unsampled").error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(own, "my own");
  std::map<std::string, nlohmann::json> lines;
  while (lines.count("unsampled") == 0) {
    std::istringstream log(server_->Log());
    for (std::string line; std::getline(log, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      if (json.is_object() && json.contains("id")) lines[json["id"]] = json;
    }
    std::this_thread::yield();
  }
  for (const std::string& id : {made, own}) {
    const nlohmann::json& line = lines[id];
    const std::vector<otlp::Span> spans = collector_.WaitForSpans(1, line.value("trace", "none"));
    EXPECT_EQ(TextOf(spans[0], "cellbatch.request_id"), id);
    EXPECT_EQ(TextOf(spans[0], "cellbatch.outcome"), line["outcome"]);
    EXPECT_EQ(TextOf(spans[0], "error.type"), line["code"]);
    EXPECT_EQ(spans[0].status().code(), otlp::Status::STATUS_CODE_ERROR);
    EXPECT_EQ(spans[0].status().message(), line["error"]);
    EXPECT_THAT(spans[0].status().message(), Not(HasSubstr("73"))) << "payload";
  }
  EXPECT_EQ(lines[own]["trace"], TraceNumber(3));
  EXPECT_EQ(lines["unsampled"]["trace"], TraceNumber(4)) << "its caller's, though we send nothing";
  const MetricsPage page(*server_);
  EXPECT_EQ(page.Sum("cellbatch_requests_total",
                     {"model=\"words\"", "version=\"1\"", "outcome=\"invalid\""}),
            3);
  EXPECT_TRUE(Infer(Traceparent(TraceNumber(5)), {1}, "the last").ok());
  collector_.WaitForSpans(5, TraceNumber(5));
  for (const otlp::Span& span : collector_.WaitForSpans(1)) {
    EXPECT_NE(DigitsOf(span.trace_id()), TraceNumber(4));
  }
}

TEST_F(TracesTest, ACallOfManyIsOneSpanWithThePhasesOfEachThatRanAndTheNumberOfThoseThatFailed) {
  ASSERT_NO_FATAL_FAILURE(Serve({}));
  const auto stub = v1::Cellbatch::NewStub(
      grpc::CreateChannel(server_->grpc(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.AddMetadata("traceparent", Traceparent(TraceNumber(8)));
  v1::InferRequest request;
  request.set_model_name("words");
  request.set_id("many");
  for (const int token : {1, 173, 2}) request.add_inputs()->mutable_sequence()->add_tokens(token);
  v1::InferResponse response;
  EXPECT_TRUE(stub->Infer(&context, request, &response).ok());
  const std::vector<otlp::Span> spans = collector_.WaitForSpans(9, TraceNumber(8));
  ASSERT_EQ(spans.size(), 9u);
  EXPECT_EQ(spans[0].name(), "cellbatch typed");
  EXPECT_EQ(NumberOf(spans[0], "cellbatch.failed_requests"), 1);
  EXPECT_EQ(NumberOf(spans[0], "cellbatch.requests"), 2);
  int of_the_third = 0;
  for (const otlp::Span& span : spans) of_the_third += NumberOf(span, "cellbatch.input") == 2;
  EXPECT_EQ(of_the_third, 4);
}

TEST_F(TracesTest, SettingsAreChangedByCallOverGrpcAndHttp) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--trace-control"}));
  const auto set = [&](const std::string& name, const std::string& value) {
    grpc::ClientContext context;
    inference::TraceSettingRequest request;
    (*request.mutable_settings())[name].add_value(value);
    inference::TraceSettingResponse response;
    EXPECT_TRUE(stub_->TraceSetting(&context, request, &response).ok());
    return response.settings().at(name).value(0);
  };
  EXPECT_EQ(set("trace_level", "OFF"), "OFF");
  EXPECT_TRUE(Infer(Traceparent(TraceNumber(6)), {1}, "").ok());
  EXPECT_THAT(HttpGet(server_->http(), "/v2/trace/setting"),
              HasSubstr(R"({"trace_level":["OFF"],"trace_rate":"1000","trace_count":"-1")"));
  EXPECT_THAT(Post("/v2/models/words/trace/setting", R"({"trace_rate":"1"})"), HasSubstr(" 400 "));
  EXPECT_THAT(Post("/v2/trace/setting", R"({"trace_level":["TIMESTAMPS"],"trace_rate":"1"})"),
              HasSubstr(R"("trace_rate":"1")"));
  EXPECT_THAT(HttpGet(server_->http(), "/v2/models/words/trace/setting"),
              HasSubstr(R"("trace_level":["TIMESTAMPS"])"));
  EXPECT_TRUE(Infer("", {1}, "every one").ok());
  const std::vector<otlp::Span> spans = collector_.WaitForSpans(5);
  EXPECT_EQ(TextOf(spans[0], "cellbatch.request_id"), "every one");
  EXPECT_EQ(spans[0].parent_span_id(), "");
}

// It is there, and takes nothing: what waits is bounded, what is too much is dropped, and requests are answered.
TEST_F(TracesTest, ACollectorThatTakesNothingCostsSpansAndNoAnswer) {
  collector_.Answer(503);
  ASSERT_NO_FATAL_FAILURE(Serve({"--trace-rate=1", "--trace-max-spans=20"}));
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(Infer("", {1, 2}, "").ok());
  const auto count = [&](const char* what) {
    return MetricsPage(*server_).Sum("cellbatch_trace_spans_total",
                                     {fmt::format("what=\"{}\"", what)});
  };
  collector_.WaitForRequests(2);  // the first batch, again
  EXPECT_GE(count("dropped"), 200 * 5 - 2 * 20);
  EXPECT_EQ(count("sent"), 0);
  collector_.Answer(200);
  const std::vector<otlp::Span> spans = collector_.WaitForSpans(5);
  EXPECT_EQ(spans[0].name(), "cellbatch grpc") << "what waited comes when it can";
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0) << server_->Log();
  EXPECT_THAT(server_->Log(), HasSubstr("traces do not reach http://127.0.0.1:"));
}

TEST(TraceFlagsTest, AUrlThatIsNoneEndsTheStartAndIsNamed) {
  const std::string repository = NewRepository();
  AddModel(repository, kWords);
  for (const char* url :
       {"https://c/v1/traces", "c:4318", "http://", "http://c:port/", "http://a b/"}) {
    ServerProcess server({"--model-repository=" + repository, "--grpc-address=127.0.0.1:0",
                          "--http-address=127.0.0.1:0", "--metrics-address=127.0.0.1:0",
                          std::string("--trace-otlp=") + url});
    EXPECT_EQ(server.Wait(), 1) << url;
    EXPECT_THAT(server.Log(), HasSubstr(fmt::format("--trace-otlp={}: expected http://", url)));
  }
}

}  // namespace
}  // namespace cellbatch
