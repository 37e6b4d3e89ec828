// Who may call the real server, and how much: tokens over gRPC and HTTP, replaced under traffic; a token is told nobody.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/token_entry.h"
#include "proto/health.grpc.pb.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/background_call.h"
#include "tests/fault/own_server_test.h"
#include "tests/testing/certificates.h"

namespace cellbatch {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTokensJson =
    R"({"inputs":[{"name":"TOKENS","shape":[3],"datatype":"INT32","data":[3,1,4]}]})";

std::string Entry(const std::string& name, const std::string& token, const std::string& more = "") {
  return fmt::format("token {{ name: \"{}\" sha256: \"{}\" {} }}\n", name, HashInHex(token), more);
}

// As whom a call is made.
std::function<void(grpc::ClientContext&)> By(const std::string& token) {
  return [token](grpc::ClientContext& context) {
    context.AddMetadata("authorization", "Bearer " + token);
  };
}

// What a program prints, and its exit code.
std::pair<std::string, int> Shell(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  const int status = pclose(pipe);
  return {text, WEXITSTATUS(status)};
}

class TokensTest : public OwnServerTest {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void ServeTokens(const std::string& tokens, std::vector<std::string> flags = {}) {
    ReplaceFile(file_, tokens);
    flags.push_back("--tokens=" + file_);
    flags.emplace_back("--reload-poll=20ms");
    Serve(std::move(flags));
  }
  // Of the ModelInfer of that model by that token.
  grpc::Status Infer(const std::string& token, const std::string& model = "words") {
    inference::ModelInferResponse answer;
    return caller_->Infer(Words({1, 2, 3}, model), answer, By(token));
  }
  // "200", and the whole reply.
  std::pair<std::string, std::string> Http(const std::string& head, const std::string& token,
                                           const std::string& body = "") const {
    return HttpBy(token.empty() ? "" : "Bearer " + token, head, body);
  }
  std::pair<std::string, std::string> HttpBy(const std::string& authorization,
                                             const std::string& head,
                                             const std::string& body = "") const {
    TcpConnection connection(server_->http());
    const std::string brought =
        authorization.empty() ? "" : "Authorization: " + authorization + "\r\n";
    connection.Send(
        fmt::format("{} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{}Content-Length: {}\r\n\r\n{}",
                    head, brought, body.size(), body));
    const std::string reply = connection.ReceiveUntil("");
    return {reply.size() < 12 ? "" : reply.substr(9, 3), reply};
  }
  double Calls(const std::string& token, const std::string& outcome) const {
    return MetricsPage(*server_).Sum("cellbatch_token_calls_total",
                                     {"token=\"" + token + "\"", "outcome=\"" + outcome + "\""});
  }

  const std::string folder_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string file_ = folder_ + "/tokens.textproto";
};

TEST_F(TokensTest, P9NoTokenOrAnUnknownOneIsUnauthenticatedAndOneWithoutTheRightIsDenied) {
  ASSERT_NO_FATAL_FAILURE(ServeTokens(Entry("search", "s3arch", "models: \"words\"")));
  inference::ModelInferResponse answer;
  EXPECT_EQ(caller_->Infer(Words({1, 2}), answer).error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Infer("wrong").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Infer("").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(Infer("s3arch").ok());
  const grpc::Status denied = Infer("s3arch", "slow");
  EXPECT_EQ(denied.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(denied.error_message(), HasSubstr("token search may not ask of model \"slow\""));
  // Whether a model is there is not told to who may not ask of it.
  EXPECT_EQ(Infer("s3arch", "nowhere").error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Calls("search", "ok"), 1);
  EXPECT_EQ(Calls("search", "denied"), 2);
  EXPECT_EQ(MetricsPage(*server_).Sum("cellbatch_unauthenticated_total"), 3);
  WaitUntilEmpty(*server_);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, P9TheSameOverHttp) {
  ASSERT_NO_FATAL_FAILURE(ServeTokens(Entry("search", "s3arch", "models: \"words\"")));
  EXPECT_EQ(Http("POST /v2/models/words/infer", "", kTokensJson).first, "401");
  const auto [code, reply] = Http("POST /v2/models/words/infer", "wrong", kTokensJson);
  EXPECT_EQ(code, "401");
  EXPECT_THAT(reply, HasSubstr("WWW-Authenticate: Bearer"));
  EXPECT_EQ(Http("POST /v2/models/words/infer", "s3arch", kTokensJson).first, "200");
  EXPECT_EQ(Http("POST /v2/models/slow/infer", "s3arch", kTokensJson).first, "403");
  EXPECT_EQ(Http("GET /v2/models/words", "s3arch").first, "200");
  EXPECT_EQ(Http("GET /v2/models/slow/config", "s3arch").first, "403");
  EXPECT_EQ(Http("GET /v2/models/stats", "s3arch").first, "403") << "of all models";
  for (const char* path : {"GET /", "GET /metrics", "GET /v2", "GET /v2/models/words"}) {
    EXPECT_EQ(Http(path, "").first, "401") << path;
  }
  EXPECT_EQ(Calls("search", "ok"), 2) << "whether it infers or not, as over gRPC";
  EXPECT_EQ(Calls("search", "denied"), 3);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, ProbesNeedNoToken) {
  ASSERT_NO_FATAL_FAILURE(ServeTokens(Entry("search", "s3arch")));
  grpc::ClientContext live, ready, model, check;
  inference::ServerLiveResponse is_live;
  EXPECT_TRUE(caller_->stub().ServerLive(&live, {}, &is_live).ok());
  inference::ServerReadyResponse is_ready;
  EXPECT_TRUE(caller_->stub().ServerReady(&ready, {}, &is_ready).ok());
  inference::ModelReadyRequest of_words;
  of_words.set_name("words");
  inference::ModelReadyResponse words_ready;
  EXPECT_TRUE(caller_->stub().ModelReady(&model, of_words, &words_ready).ok());
  const auto health = grpc::health::v1::Health::NewStub(caller_->channel());
  grpc::health::v1::HealthCheckResponse serving;
  EXPECT_TRUE(health->Check(&check, {}, &serving).ok());
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/words/ready"}) {
    EXPECT_EQ(Http(std::string("GET ") + path, "").first, "200") << path;
  }
  EXPECT_THAT(HttpGet(server_->metrics(), "/metrics"), testing::StartsWith("200 "));
  EXPECT_EQ(HttpGet(server_->metrics(), "/v2/health/ready"), kReadyAnswer) << "its own port";
  EXPECT_EQ(HttpGet(server_->metrics(), "/v2/health/live"), kLiveAnswer);
  EXPECT_THAT(HttpGet(server_->metrics(), "/v2/models/words"), testing::StartsWith("404 "));
  // Everything else does, reflection too.
  grpc::ClientContext metadata;
  inference::ServerMetadataResponse said;
  EXPECT_EQ(caller_->stub().ServerMetadata(&metadata, {}, &said).error_code(),
            StatusCode::UNAUTHENTICATED);
  const RawAnswer reflected =
      caller_->Raw("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {""});
  EXPECT_EQ(reflected.status.error_code(), StatusCode::UNAUTHENTICATED);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, OnlyWhoMayControlChangesWhatIsServedLoggedOrTraced) {
  ASSERT_NO_FATAL_FAILURE(
      ServeTokens(Entry("search", "s3arch") + Entry("operator", "0perator", "may_control: true"),
                  {"--model-control=explicit", "--load-model=*", "--log-control", "--trace-control",
                   "--trace-otlp=http://127.0.0.1:1/v1/traces"}));
  const auto unload = [&](const std::string& token) {
    grpc::ClientContext context;
    By(token)(context);
    inference::RepositoryModelUnloadRequest request;
    request.set_model_name("slow");
    inference::RepositoryModelUnloadResponse answer;
    return caller_->stub().RepositoryModelUnload(&context, request, &answer).error_code();
  };
  const auto log = [&](const std::string& token, bool change) {
    grpc::ClientContext context;
    By(token)(context);
    inference::LogSettingsRequest request;
    if (change) (*request.mutable_settings())["log_info"].set_bool_param(true);
    inference::LogSettingsResponse answer;
    return caller_->stub().LogSettings(&context, request, &answer).error_code();
  };
  EXPECT_EQ(unload("s3arch"), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Http("POST /v2/repository/models/slow/unload", "s3arch").first, "403");
  EXPECT_EQ(log("s3arch", true), StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(Http("POST /v2/logging", "s3arch", R"({"log_info":true})").first, "403");
  EXPECT_EQ(Http("POST /v2/trace/setting", "s3arch", R"({"trace_rate":"7"})").first, "403");
  EXPECT_EQ(log("s3arch", false), StatusCode::OK) << "reading is no change";
  EXPECT_EQ(log("0perator", true), StatusCode::OK);
  EXPECT_EQ(Http("POST /v2/trace/setting", "0perator", R"({"trace_rate":"7"})").first, "200");
  EXPECT_EQ(unload("0perator"), StatusCode::OK);
  EXPECT_EQ(Http("POST /v2/repository/models/slow/load", "0perator").first, "200");
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, ABrowserOpensThePagesByANameAndATokenAsPassword) {
  ASSERT_NO_FATAL_FAILURE(
      ServeTokens(Entry("search", "s3arch") + Entry("operator", "0perator", "may_control: true"),
                  {"--model-control=explicit", "--load-model=*"}));
  const auto basic = [](const std::string& name_and_token) {
    return "Basic " + absl::Base64Escape(name_and_token);
  };
  const auto [asked, challenge] = HttpBy("", "GET /");
  EXPECT_EQ(asked, "401");
  const size_t basic_at = challenge.find("\r\nWWW-Authenticate: Basic realm=\"");
  const size_t bearer_at = challenge.find("\r\nWWW-Authenticate: Bearer\r\n");
  EXPECT_NE(bearer_at, challenge.npos) << challenge;
  EXPECT_LT(basic_at, bearer_at) << challenge;
  for (const char* page : {"GET /", "HEAD /", "GET /status.js", "GET /metrics",
                           "GET /explain/words", "GET /v2/models/words"}) {
    EXPECT_EQ(HttpBy(basic("someone:s3arch"), page).first, "200") << page;
  }
  const auto [unknown, why] = HttpBy(basic("someone:wrong"), "GET /");
  EXPECT_EQ(unknown, "401");
  EXPECT_THAT(why, HasSubstr("its token is not known"));
  EXPECT_THAT(why, HasSubstr("WWW-Authenticate: Basic")) << "so that the browser asks again";
  const auto [malformed, how] = HttpBy("Basic s3arch", "GET /");
  EXPECT_EQ(malformed, "401");
  EXPECT_THAT(how, HasSubstr("its Basic credential is not base64 of NAME:TOKEN"));
  // A browser that knows a password sends it with whatever a page of somebody else's makes it send.
  for (const char* change : {"POST /v2/repository/models/slow/unload", "POST /v2/logging",
                             "POST /v2/models/words/infer"}) {
    const auto [refused, reply] = HttpBy(basic("someone:0perator"), change, kTokensJson);
    EXPECT_EQ(refused, "401") << change;
    EXPECT_THAT(reply, Not(HasSubstr("WWW-Authenticate: Basic"))) << change;
  }
  EXPECT_EQ(Http("GET /v2/models/slow/ready", "").first, "200") << "it is still served";
  const MetricsPage page(*server_);
  const auto refused = [&](const std::string& reason) {
    return page.Sum("cellbatch_unauthenticated_total", {"reason=\"" + reason + "\""});
  };
  EXPECT_EQ(refused("missing"), 1);
  EXPECT_EQ(refused("unknown"), 1);
  EXPECT_EQ(refused("malformed"), 1 + 3);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, WhoMayAskOfSomeModelsSeesTheseAlone) {
  ASSERT_NO_FATAL_FAILURE(
      ServeTokens(Entry("search", "s3arch", "models: \"words\"") + Entry("all", "4ll")));
  const auto index = [&](const std::string& token) {
    grpc::ClientContext context;
    By(token)(context);
    inference::RepositoryIndexResponse answer;
    EXPECT_TRUE(caller_->stub().RepositoryIndex(&context, {}, &answer).ok());
    std::vector<std::string> names;
    for (const auto& model : answer.models()) names.push_back(model.name());
    return names;
  };
  EXPECT_THAT(index("s3arch"), testing::ElementsAre("words"));
  EXPECT_THAT(index("4ll"), testing::IsSupersetOf({"words", "slow"}));
  const auto [listed, list] = Http("POST /v2/repository/index", "s3arch");
  EXPECT_EQ(listed, "200");
  EXPECT_THAT(list, HasSubstr("\"words\""));
  EXPECT_THAT(list, Not(HasSubstr("\"slow\"")));
  EXPECT_THAT(Http("POST /v2/repository/index", "4ll").second, HasSubstr("\"slow\""));
  // What shows every model is not for who may not ask of every one; what there is not is not told either.
  for (const char* of_others : {"GET /", "GET /metrics", "GET /explain/slow",
                                "GET /explain/nowhere", "GET /v2/models/slow/trace/setting"}) {
    EXPECT_EQ(Http(of_others, "s3arch").first, "403") << of_others;
  }
  EXPECT_EQ(Http("GET /explain/words", "s3arch").first, "200");
  EXPECT_EQ(Http("GET /v2", "s3arch").first, "200");
  EXPECT_EQ(Http("GET /", "4ll").first, "200");
  const auto traced = [&](const std::string& model) {
    grpc::ClientContext context;
    By("s3arch")(context);
    inference::TraceSettingRequest request;
    request.set_model_name(model);
    inference::TraceSettingResponse answer;
    return caller_->stub().TraceSetting(&context, request, &answer).error_code();
  };
  EXPECT_EQ(traced("nowhere"), StatusCode::PERMISSION_DENIED);
  EXPECT_NE(traced("words"), StatusCode::PERMISSION_DENIED);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, ATokensBoundsAreItsOwnAndNamed) {
  ASSERT_NO_FATAL_FAILURE(ServeTokens(Entry("batch", "b4tch", "max_requests: 2") +
                                      Entry("rare", "r4re", "requests_per_second: 0.001") +
                                      Entry("search", "s3arch")));
  std::vector<std::unique_ptr<BackgroundCall>> calls;
  grpc::ClientContext contexts[2];
  inference::ModelInferResponse answers[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    By("b4tch")(contexts[i]);
    threads.emplace_back([&, i] {
      caller_->stub().ModelInfer(&contexts[i], Words(std::vector<int32_t>(kSlowSteps, 1), "slow"),
                                 &answers[i]);
    });
  }
  WaitForPage(*server_, [](const MetricsPage& page) {
    return page.Sum("cellbatch_token_requests", {R"(token="batch")"}) == 2;
  });
  const grpc::Status third = Infer("b4tch");
  EXPECT_EQ(third.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(third.error_message(), HasSubstr("its max_requests is 2 (--tokens)"));
  const auto [code, reply] = Http("POST /v2/models/words/infer", "b4tch", kTokensJson);
  EXPECT_EQ(code, "429");
  EXPECT_THAT(reply, HasSubstr("max_requests"));
  EXPECT_TRUE(Infer("s3arch").ok());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (std::thread& thread : threads) thread.join();
  WaitUntilEmpty(*server_);
  EXPECT_TRUE(Infer("b4tch").ok());
  // One second's worth is less than one request: the first is let in, and pays for long.
  EXPECT_TRUE(Infer("r4re").ok());
  const grpc::Status soon = Infer("r4re");
  EXPECT_EQ(soon.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(soon.error_message(), HasSubstr("requests_per_second"));
  EXPECT_GT(MetricsPage(*server_).Sum("cellbatch_rejected_total", {R"(reason="token_limit")"}), 0);
  EXPECT_GT(MetricsPage(*server_).Sum("cellbatch_rejected_total", {R"(reason="token_rate")"}), 0);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, TokensAreReplacedUnderTrafficAndNoCallIsLost) {
  ASSERT_NO_FATAL_FAILURE(ServeTokens(Entry("search", "s3arch") + Entry("gone", "g0ne")));
  constexpr int kReplaced = 10;
  std::atomic<bool> stop = false;
  std::atomic<int64_t> answered = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 2; ++i) {
    clients.emplace_back([&] {
      GrpcCaller caller(server_->grpc());
      while (!stop.load()) {
        inference::ModelInferResponse answer;
        const grpc::Status status = caller.Infer(Words({1, 2, 3}), answer, By("s3arch"));
        EXPECT_TRUE(status.ok()) << status.error_message();
        ++answered;
      }
    });
  }
  const auto wait_for = [&](const std::string& outcome, int files) {
    WaitForPage(*server_, [&](const MetricsPage& page) {
      return page.Sum("cellbatch_token_files_total", {"outcome=\"" + outcome + "\""}) >= files;
    });
  };
  EXPECT_TRUE(Infer("g0ne").ok());
  for (int i = 1; i <= kReplaced; ++i) {
    const std::string token = "t" + std::to_string(i);
    ReplaceFile(file_, Entry("search", "s3arch") + Entry("new", token));
    wait_for("taken", i);
    EXPECT_TRUE(Infer(token).ok());
    EXPECT_EQ(Infer("t" + std::to_string(i - 1)).error_code(), StatusCode::UNAUTHENTICATED);
    ReplaceFile(file_, Entry("search", "s3arch") + "token { name: ");
    wait_for("refused", i);
    EXPECT_TRUE(Infer(token).ok()) << "a broken file changes nothing";
  }
  EXPECT_EQ(Infer("g0ne").error_code(), StatusCode::UNAUTHENTICATED);
  stop.store(true);
  for (std::thread& client : clients) client.join();
  EXPECT_GT(answered.load(), kReplaced);
  // Nothing of a token, or of its hash, is in a log, a page or an answer.
  const std::string told = server_->Log() + HttpGet(server_->metrics(), "/metrics") +
                           Http("GET /", "s3arch").second + Infer("wr0ng-one").error_message();
  for (const std::string& secret : {std::string("s3arch"), std::string("g0ne"),
                                    std::string("wr0ng-one"), HashInHex("s3arch")}) {
    EXPECT_THAT(told, Not(HasSubstr(secret)));
  }
  ASSERT_NO_FATAL_FAILURE(End());
}

// Who reads the log knows tokens by their names, not by a number made of a credential.
TEST_F(TokensTest, TheLineOfAFailedRequestNamesItsToken) {
  ASSERT_NO_FATAL_FAILURE(
      ServeTokens(Entry("search", "s3arch"), {"--log-format=json", "--log-failed-requests=1000"}));
  const auto client_of = [&](const std::string& wire, const std::string& code) {
    const std::string of = fmt::format(R"("wire":"{}",)", wire);
    while (true) {  // a thread of its own writes it
      std::istringstream log(server_->Log());
      for (std::string line; std::getline(log, line);) {
        if (line.find(of) == line.npos || line.find(code) == line.npos) continue;
        const size_t begin = line.find(R"("client":")") + 10;
        return line.substr(begin, line.find('"', begin) - begin);
      }
      std::this_thread::yield();
    }
  };
  inference::ModelInferResponse answer;
  EXPECT_EQ(caller_->Infer(Words({100}), answer, By("s3arch")).error_code(),
            StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(client_of("grpc", "INVALID_ARGUMENT"), "token search");
  EXPECT_EQ(Http("POST /v2/models/words/infer HTTP/1.1\r\nx-cellbatch-tenant: acme\r\nx:", "s3arch",
                 R"({"inputs":[{"name":"TOKENS","shape":[1],"datatype":"INT32","data":[100]}]})")
                .first,
            "400");
  EXPECT_EQ(client_of("http", "INVALID_ARGUMENT"), "token search, tenant acme");
  EXPECT_EQ(Infer("wrong").error_code(), StatusCode::UNAUTHENTICATED);
  EXPECT_THAT(client_of("grpc", "UNAUTHENTICATED"), testing::StartsWith("credential "));
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, TheClientDrawsATokenThatTheServerTakesAndBothProgramsCallByItOverTls) {
  const CertificateRoot root("a root");
  const IssuedCertificate shown = root.Issue({}), own = root.Issue({.common_name = "someone"});
  ReplaceFile(folder_ + "/ca.crt", root.certificate());
  ReplaceFile(folder_ + "/tls.crt", shown.certificate);
  ReplaceFile(folder_ + "/tls.key", shown.key);
  ReplaceFile(folder_ + "/own.crt", own.certificate);
  ReplaceFile(folder_ + "/own.key", own.key);
  const std::string token_file = folder_ + "/token";
  std::filesystem::remove(token_file);
  const std::string draw = "client/cellbatch-client token --name=drawn --token-file=" + token_file;
  const auto [entry, code] = Shell(draw);
  ASSERT_EQ(code, 0) << entry;
  EXPECT_EQ(Shell(draw).second, 1) << "it replaces no token";
  std::string token;
  std::getline(std::ifstream(token_file), token);
  EXPECT_EQ(token.size(), 64U);
  EXPECT_THAT(entry, Not(HasSubstr(token)));
  ReplaceFile(file_, entry);
  credentials_ = grpc::InsecureChannelCredentials();
  ASSERT_NO_FATAL_FAILURE(ServeTokens(
      entry, {"--tls-certificate=" + folder_ + "/tls.crt", "--tls-key=" + folder_ + "/tls.key",
              "--tls-client-ca=" + folder_ + "/ca.crt"}));
  const std::string with = " --url=" + server_->grpc() + " --tls --ca=" + folder_ +
                           "/ca.crt --cert=" + folder_ + "/own.crt --key=" + folder_ + "/own.key";
  const std::string infer = "client/cellbatch-client infer --model=words --tokens='1 2 3'";
  const auto [answer, inferred] = Shell(infer + with + " --token-file=" + token_file);
  EXPECT_EQ(inferred, 0) << answer;
  const auto [unknown, refused] = Shell(infer + with);
  EXPECT_EQ(refused, 1);
  EXPECT_THAT(unknown, HasSubstr("the call brings no token"));
  // Whether its figures are VALID depends on the machine (a core that stalls makes it send late); who is answered does not.
  const auto [load, loaded] = Shell(
      "loadgen/cellbatch-loadgen --model=words --rate=200 --duration=1 --warmup=0 "
      "--arrivals=constant --timeout=120" +
      with + " --token-file=" + token_file);
  EXPECT_LE(loaded, 1) << load;
  EXPECT_THAT(load, testing::ContainsRegex("\ncompleted +200 ")) << "every one is answered";
  EXPECT_GT(Calls("drawn", "ok"), 200);
  ASSERT_NO_FATAL_FAILURE(End());
}

TEST_F(TokensTest, ReflectionMayBeSwitchedOff) {
  ASSERT_NO_FATAL_FAILURE(Serve({"--grpc-reflection=false"}));
  const RawAnswer reflected =
      caller_->Raw("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", {""});
  EXPECT_EQ(reflected.status.error_code(), StatusCode::UNIMPLEMENTED);
  ExpectGood(*caller_);
  ASSERT_NO_FATAL_FAILURE(End());
}

}  // namespace
}  // namespace cellbatch
