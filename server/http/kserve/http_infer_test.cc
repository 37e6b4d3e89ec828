// Inference over HTTP without a socket: between an exchange by hand and a fake scheduler.
#include "server/http/kserve/http_infer.h"

#include <cstring>
#include <optional>

#include "nlohmann/json.hpp"
#include "server/http/kserve/kserve_pages.h"
#include "tests/testing/service_test.h"

namespace cellbatch {
namespace {

class FakeExchange final : public HttpExchange {
 public:
  FakeExchange(HttpRequest request, int64_t received_ns)
      : request_(std::move(request)), received_ns_(received_ns) {}
  const HttpRequest& request() const override { return request_; }
  int64_t received_ns() const override { return received_ns_; }
  int thread() const override { return 0; }
  void OnHangUp(std::function<void()> gone) override {
    if (!reply) gone_ = std::move(gone);
  }
  void Run(std::function<void()> work) override { work(); }
  void Reply(HttpReply the_reply) override {
    EXPECT_FALSE(reply.has_value());
    gone_ = nullptr;
    reply = std::move(the_reply);
  }
  void HangUp() { std::exchange(gone_, nullptr)(); }
  bool CanHangUp() const { return static_cast<bool>(gone_); }

  std::optional<HttpReply> reply;

 private:
  const HttpRequest request_;
  const int64_t received_ns_;
  std::function<void()> gone_;
};

class HttpInferTest : public ServiceTest {
 protected:
  explicit HttpInferTest(const AdmissionLimits& limits = {}) : ServiceTest(limits) {}

  std::shared_ptr<FakeExchange> Ask(const std::string& body, const std::string& model = "tiny",
                                    std::vector<std::pair<std::string, std::string>> headers = {}) {
    auto exchange = std::make_shared<FakeExchange>(
        HttpRequest{
            .method = "POST", .path = "", .query = "", .headers = std::move(headers), .body = body},
        clock_.now - 1000);
    service_.Answer(exchange, {.ask = KServeAsk::kInfer, .model = model});
    return exchange;
  }
  nlohmann::json Json(const FakeExchange& exchange, int status) {
    EXPECT_TRUE(exchange.reply.has_value());
    if (!exchange.reply) return {};
    EXPECT_EQ(exchange.reply->status, status) << exchange.reply->body;
    EXPECT_EQ(exchange.reply->content_type, "application/json");
    return nlohmann::json::parse(exchange.reply->body, nullptr, false);
  }

  HttpInferService service_{path_, 1};
};

constexpr const char* kGood =
    R"({"id":"seven","inputs":[{"name":"TOKENS","shape":[3],"datatype":"INT32","data":[1,2,3]}]})";

TEST_F(HttpInferTest, AnAnswerCarriesItsValuesIdAndVersionAndIsCounted) {
  const auto exchange = Ask(kGood);
  EXPECT_FALSE(exchange->reply.has_value());
  EXPECT_EQ(admission_.InFlight().cells, 3);
  scheduler_.FinishAll();
  StepResponder();
  const nlohmann::json answer = Json(*exchange, 200);
  EXPECT_EQ(answer["id"], "seven");
  EXPECT_EQ(answer["model_name"], "tiny");
  EXPECT_EQ(answer["model_version"], "1");
  EXPECT_EQ(answer["outputs"][0]["datatype"], "FP32");
  EXPECT_EQ(answer["outputs"][0]["data"], nlohmann::json::array({6, 6}));
  EXPECT_EQ(Count(RequestOutcome::kOk), 1);
  EXPECT_EQ(admission_.InFlight().requests, 1) << "until its client has it";
  exchange->reply.reset();
  ExpectNothingInFlight();
}

TEST_F(HttpInferTest, BinaryTensorsGoBehindTheJsonBothWays) {
  const std::string json =
      R"({"inputs":[{"name":"TOKENS","shape":[2],"datatype":"INT32","parameters":{"binary_data_size":8}}],)"
      R"("outputs":[{"name":"OUTPUT","parameters":{"binary_data":true}}]})";
  const int32_t tokens[] = {4, 5};
  const std::string body =
      json + std::string(reinterpret_cast<const char*>(tokens), sizeof(tokens));
  const auto exchange =
      Ask(body, "tiny", {{"inference-header-content-length", std::to_string(json.size())}});
  scheduler_.FinishAll();
  StepResponder();
  ASSERT_TRUE(exchange->reply.has_value());
  const HttpReply& reply = *exchange->reply;
  ASSERT_EQ(reply.headers.size(), 1u) << reply.body;
  EXPECT_EQ(reply.headers[0].first, "Inference-Header-Content-Length");
  const size_t json_bytes = std::stoul(reply.headers[0].second);
  ASSERT_EQ(reply.body.size(), json_bytes + 8);
  float value = 0;
  std::memcpy(&value, reply.body.data() + json_bytes, 4);
  EXPECT_EQ(value, 9);
}

TEST_F(HttpInferTest, EveryErrorIsJsonWithTritonsStatus) {
  const auto error = [&](const FakeExchange& exchange, int status) {
    return Json(exchange, status).value("error", "");
  };
  EXPECT_EQ(error(*Ask("{"), 400), "malformed JSON at byte 2");
  EXPECT_EQ(error(*Ask(kGood, "nobody"), 404), "unknown model");
  EXPECT_NE(error(*Ask(kGood, "../x"), 400).find("no name of a model"), std::string::npos);
  EXPECT_EQ(error(*Ask("{}"), 400), "input TOKENS of model \"tiny\" is missing");
  EXPECT_EQ(error(*Ask(kGood, "tiny", {{"Inference-Header-Content-Length", "x"}}), 400),
            "Inference-Header-Content-Length is \"x\", which is no number");
  EXPECT_EQ(Count(RequestOutcome::kInvalid), 1);
  ExpectNothingInFlight();
}

TEST_F(HttpInferTest, ANumberThatHasNoNameIsAnInternalErrorOfThatRequest) {
  model_ = NamingModel();
  const auto exchange = Ask(kGood);
  scheduler_.FinishAll();
  StepResponder();
  EXPECT_EQ(Json(*exchange, 500).value("error", ""),
            "model \"tiny\": output LABELS: a cell left number 1086324736, there are 2 names");
}

TEST_F(HttpInferTest, ACompressedBodyIsRefusedBeforeItIsRead) {
  const auto refused = HttpInferService::RefuseHead({.method = "POST",
                                                     .path = "",
                                                     .query = "",
                                                     .headers = {{"content-encoding", "gzip"}},
                                                     .body = ""});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 415);
}

TEST_F(HttpInferTest, AClientThatHangsUpIsCancelled) {
  const auto exchange = Ask(kGood);
  ASSERT_TRUE(exchange->CanHangUp());
  exchange->HangUp();
  ASSERT_EQ(scheduler_.news().size(), 1u);
  EXPECT_EQ(scheduler_.news()[0].second, News::kCancelled);
  StepResponder();
  EXPECT_EQ(Count(RequestOutcome::kCancelled), 1);
  ExpectNothingInFlight();
}

TEST_F(HttpInferTest, ATimeoutIsADeadline) {
  std::string body = kGood;
  body.insert(1, R"("parameters":{"timeout":1},)");
  const auto exchange = Ask(body);
  const nlohmann::json answer = Json(*exchange, 504);
  EXPECT_EQ(Count(RequestOutcome::kDeadline), 1);
  ExpectNothingInFlight();
}

// Its tensors are twice the text of their numbers, and more while they grow.
TEST_F(HttpInferTest, JsonIsAdmittedForWhatReadingMakesOfIt) {
  std::string zeros = "0";
  for (int i = 1; i < 300; ++i) zeros += ",0";
  const std::string json =
      R"({"inputs":[{"name":"TOKENS","shape":[300],"datatype":"INT64","data":[)" + zeros + "]}]}";
  const auto exchange = Ask(json);
  EXPECT_GE(admission_.InFlight().bytes, static_cast<int64_t>(json.size()) + 2 * 8 * 300);
  EXPECT_LE(admission_.InFlight().bytes, static_cast<int64_t>(8 * json.size() + 32 * 300));
  scheduler_.FinishAll();
  StepResponder();
  Json(*exchange, 200);
  exchange->reply.reset();
  ExpectNothingInFlight();
}

class SmallHttpInferTest : public HttpInferTest {
 protected:
  SmallHttpInferTest() : HttpInferTest({.max_requests = 1}) {}
};

TEST_F(SmallHttpInferTest, AFullServerSaysWhenToComeAgainAndAClosedOneToGoElsewhere) {
  const auto first = Ask(kGood), second = Ask(kGood);
  EXPECT_FALSE(first->reply.has_value());
  EXPECT_NE(Json(*second, 429).value("error", "").find("--max-queued-requests"), std::string::npos);
  ASSERT_EQ(second->reply->headers.size(), 1u);
  EXPECT_EQ(second->reply->headers[0].first, "Retry-After");
  admission_.Close();
  const auto third = Ask(kGood);
  Json(*third, 503);
  EXPECT_TRUE(third->reply->headers.empty());
  scheduler_.FinishAll();
  StepResponder();
  Json(*first, 200);
}

}  // namespace
}  // namespace cellbatch
