#include "server/http/kserve/kserve_pages.h"

#include <tuple>
#include <utility>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/fake_scheduler.h"
#include "tests/testing/test_model.h"

namespace cellbatch {
namespace {

TEST(KServePathTest, EveryPathIsReadAsTritonSpellsIt) {
  const std::tuple<const char*, KServeAsk, const char*, const char*> cases[] = {
      {"/v2", KServeAsk::kServer, "", ""},
      {"/v2/", KServeAsk::kServer, "", ""},
      {"/v2/health/live", KServeAsk::kLive, "", ""},
      {"/v2/health/ready", KServeAsk::kReady, "", ""},
      {"/v2/models/a", KServeAsk::kMetadata, "a", ""},
      {"/v2/models/a%20b%2", KServeAsk::kMetadata, "a b%2", ""},
      {"/v2/models/a/versions/7", KServeAsk::kMetadata, "a", "7"},
      {"/v2/models/a/ready", KServeAsk::kModelReady, "a", ""},
      {"/v2/models/a/versions/7/ready", KServeAsk::kModelReady, "a", "7"},
      {"/v2/models/a/config", KServeAsk::kConfig, "a", ""},
      {"/v2/models/a/stats", KServeAsk::kStatistics, "a", ""},
      {"/v2/models/stats", KServeAsk::kStatistics, "", ""},
      {"/v2/models/stats/stats", KServeAsk::kStatistics, "stats", ""},
      {"/v2/models/a/infer", KServeAsk::kInfer, "a", ""},
      {"/v2/models/a/versions/7/infer", KServeAsk::kInfer, "a", "7"},
      {"/v2/models/a/generate", KServeAsk::kUnserved, "a", ""},
      {"/v2/repository/index", KServeAsk::kIndex, "", ""},
      {"/v2/repository/models/a/load", KServeAsk::kLoad, "a", ""},
      {"/v2/repository/models/a/unload", KServeAsk::kUnload, "a", ""},
      {"/v2/logging", KServeAsk::kLogging, "", ""},
      {"/v2/systemsharedmemory/status", KServeAsk::kUnserved, "", ""},
  };
  for (const auto& [text, ask, model, version] : cases) {
    const auto path = ParseKServePath(text);
    ASSERT_TRUE(path.has_value()) << text;
    EXPECT_EQ(path->ask, ask) << text;
    EXPECT_EQ(path->model, model) << text;
    EXPECT_EQ(path->version, version) << text;
  }
  for (const char* text :
       {"", "/", "v2", "/v3", "/v2/models", "/v2/models/", "/v2/models/a/b",
        "/v2/models/a/versions/1/b/c", "/v2/health", "/v2/health/a", "/v2/logging/a",
        "/v2/repository/models/a/b", "/v2/models/a/b/c/d/e/f/g/h/i/j/k", "/v2/models//stats",
        "/v2/models//trace/setting", "/v2/models/a//", "/v2/models/a/versions//infer",
        "/v2/repository/models//load", "/v2/models/a/versions/1/trace/setting//b"}) {
    EXPECT_FALSE(ParseKServePath(text).has_value()) << text;
  }
}

class KServePagesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Model>> Find(std::string_view name, std::string_view) {
    if (name == "cold") return absl::UnavailableError("model \"cold\" is loading");
    if (name != "tiny") return absl::NotFoundError("unknown model");
    return model_;
  }
  HttpReply Get(const char* path, std::string_view body = "") {
    return pages_.Answer(*ParseKServePath(path), body);
  }
  nlohmann::json Json(const char* path, std::string_view body = "") {
    const HttpReply reply = Get(path, body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(reply.content_type, "application/json");
    return nlohmann::json::parse(reply.body);
  }

  std::shared_ptr<const Model> model_ = TinyModel("tiny", 3);
  FakeScheduler scheduler_;
  StatsRegistry stats_{2};
  Lifecycle lifecycle_;
  KServeService kserve_{
      [this](std::string_view name, std::string_view version) { return Find(name, version); },
      [] {
        return std::vector<IndexEntry>{{"broken", "", "UNAVAILABLE", "no weights"},
                                       {"tiny", "3", "READY", ""}};
      },
      scheduler_, stats_, lifecycle_};
  KServePages pages_{kserve_};
};

// Kubernetes reads the status, clients of KServe's protocol (its SDK) the JSON.
TEST_F(KServePagesTest, ProbesSayByStatusAndInJsonWhatIsReady) {
  const auto expect = [&](const char* path, int status, const char* body) {
    const HttpReply reply = Get(path);
    EXPECT_EQ(reply.status, status) << path;
    EXPECT_EQ(reply.body, body) << path;
    EXPECT_EQ(reply.content_type, "application/json") << path;
  };
  expect("/v2/health/live", 200, R"({"live":true})");
  expect("/v2/health/ready", 503, R"({"ready":false})");
  expect("/v2/models/tiny/ready", 503, R"({"name":"tiny","ready":false})");
  lifecycle_.Serve();
  expect("/v2/health/ready", 200, R"({"ready":true})");
  expect("/v2/models/tiny/ready", 200, R"({"name":"tiny","ready":true})");
  expect("/v2/models/tiny/versions/3/ready", 200, R"({"name":"tiny","ready":true})");
  expect("/v2/models/cold/ready", 503, R"({"name":"cold","ready":false})");
  expect("/v2/models/nobody/ready", 404, R"({"error":"unknown model"})");
}

TEST_F(KServePagesTest, WhatGrpcSaysIsSaidInJsonWithNumbersAsNumbers) {
  EXPECT_EQ(Json("/v2")["name"], "cellbatch");
  const nlohmann::json metadata = Json("/v2/models/tiny");
  EXPECT_EQ(metadata["versions"], nlohmann::json({"3"}));
  EXPECT_EQ(metadata["inputs"][0]["name"], "TOKENS");
  EXPECT_EQ(metadata["inputs"][0]["shape"], nlohmann::json::array({-1}));
  const nlohmann::json config = Json("/v2/models/tiny/config");
  EXPECT_EQ(config["name"], "tiny");
  EXPECT_EQ(config["max_batch_size"], 0);
  EXPECT_EQ(config["input"][0]["data_type"], "TYPE_INT32");
  EXPECT_EQ(config["parameters"]["precision"]["string_value"], "FP32");
  EXPECT_EQ(config["model_transaction_policy"]["decoupled"], false);
  const nlohmann::json statistics = Json("/v2/models/stats");
  ASSERT_EQ(statistics["model_stats"].size(), 1u);
  EXPECT_EQ(statistics["model_stats"][0]["inference_stats"]["success"]["count"], 0);
  EXPECT_EQ(Json("/v2/models/tiny/stats"), statistics);
  const nlohmann::json index = Json("/v2/repository/index");
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index[0]["reason"], "no weights");
  EXPECT_EQ(Json("/v2/repository/index", R"({"ready":true})").size(), 1u);
}

TEST_F(KServePagesTest, LoadsAndUnloadsAreAnsweredWhenTheyAreMade) {
  std::vector<std::pair<std::string, ModelChangeDone>> asked;
  kserve_.ServeChanges([&](ModelChange what, const std::string& name, ModelChangeDone done) {
    asked.emplace_back((what == ModelChange::kLoad ? "load " : "unload ") + name, std::move(done));
  });
  std::vector<HttpReply> replies;
  const auto change = [&](const char* path, std::string_view body) {
    pages_.Change(*ParseKServePath(path), body,
                  [&](HttpReply reply) { replies.push_back(std::move(reply)); });
  };
  change("/v2/repository/models/new/load", "");
  change("/v2/repository/models/old/unload", R"({"parameters": {"unload_dependents": false}})");
  change("/v2/repository/models/old/unload", "{}");
  EXPECT_TRUE(replies.empty());
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].first, "load new");
  EXPECT_EQ(asked[1].first, "unload old");
  asked[1].second(absl::OkStatus());
  asked[0].second(absl::UnavailableError("not by call"));
  ASSERT_EQ(replies.size(), 2u);
  EXPECT_EQ(replies[0].status, 200);
  EXPECT_EQ(replies[0].body, "{}");
  EXPECT_EQ(replies[1].status, 503);
  EXPECT_EQ(replies[1].body, R"({"error":"not by call"})");
  for (const char* body :
       {"[", "7", "[]", R"({"parameters": 7})", "{\"parameters\": {\"\xff\": 1}}",
        R"({"parameters": {"config": "{}"}})"}) {
    change("/v2/repository/models/new/load", body);
    EXPECT_EQ(replies.back().status, 400) << body;
  }
  change("/v2/repository/models/new/load", std::string(5000, ' '));
  EXPECT_EQ(replies.back().status, 400);
  EXPECT_EQ(replies.size(), 9u);
  EXPECT_EQ(asked.size(), 3u) << "what cannot be read changes nothing";
}

TEST_F(KServePagesTest, LogSettingsAreReadAndChangedInOneObject) {
  EXPECT_EQ(Get("/v2/logging").status, 501) << "nobody knows what is logged";
  inference::LogSettingsRequest asked;
  kserve_.ServeLogSettings([&](const inference::LogSettingsRequest& request)
                               -> absl::StatusOr<inference::LogSettingsResponse> {
    asked = request;
    if (request.settings().contains("log_file")) return absl::PermissionDeniedError("no");
    inference::LogSettingsResponse response;
    (*response.mutable_settings())["log_verbose_level"].set_uint32_param(1);
    (*response.mutable_settings())["log_info"].set_bool_param(true);
    (*response.mutable_settings())["log_file"].set_string_param("");
    return response;
  });
  EXPECT_EQ(Get("/v2/logging").body, R"({"log_file":"","log_info":true,"log_verbose_level":1})");
  EXPECT_TRUE(asked.settings().empty());
  EXPECT_EQ(
      Get("/v2/logging", R"({"log_info":false,"log_verbose_level":7,"log_format":"a"})").status,
      200);
  EXPECT_TRUE(asked.settings().at("log_info").has_bool_param());
  EXPECT_EQ(asked.settings().at("log_verbose_level").uint32_param(), 7u);
  EXPECT_EQ(asked.settings().at("log_format").string_param(), "a");
  EXPECT_EQ(Get("/v2/logging", R"({"log_file":"x"})").status, 403);
  for (const char* body : {"[", "7", "[]", R"({"log_info": null})", R"({"log_info": -1})",
                           R"({"log_info": 4294967296})", R"({"log_info": {}})"}) {
    EXPECT_EQ(Get("/v2/logging", body).status, 400) << body;
  }
  EXPECT_EQ(Get("/v2/logging", std::string(5000, ' ')).status, 400);
}

TEST(ErrorReplyTest, AnErrorHasTheStatusOfHttpThatSaysTheSame) {
  EXPECT_EQ(ErrorReply(absl::InvalidArgumentError("why")).status, 400);
  EXPECT_EQ(ErrorReply(absl::NotFoundError("why")).status, 404);
  EXPECT_EQ(ErrorReply(absl::AbortedError("why")).status, 409) << "a piece behind one that failed";
  EXPECT_EQ(ErrorReply(absl::ResourceExhaustedError("why")).status, 429);
  EXPECT_EQ(ErrorReply(absl::InternalError("why")).status, 500);
  EXPECT_EQ(ErrorReply(absl::UnavailableError("why")).status, 503);
  EXPECT_EQ(ErrorReply(absl::DeadlineExceededError("why")).status, 504);
  EXPECT_EQ(ErrorReply(absl::AbortedError("why")).body, R"({"error":"why"})");
}

TEST_F(KServePagesTest, ErrorsAreJson) {
  const std::pair<const char*, int> cases[] = {
      {"/v2/models/nobody", 404},
      {"/v2/models/cold", 503},
      {"/v2/models/tiny/versions/x", 400},
      {"/v2/models/tiny/generate", 501},
  };
  for (const auto& [path, status] : cases) {
    const HttpReply reply = Get(path);
    EXPECT_EQ(reply.status, status) << path;
    EXPECT_TRUE(nlohmann::json::parse(reply.body)["error"].is_string()) << path;
  }
  EXPECT_EQ(Get("/v2/repository/index", "[").status, 400);
  EXPECT_EQ(Get("/v2/repository/index", R"({"ready":7})").status, 400);
  EXPECT_EQ(Get("/v2/repository/index", std::string(5000, ' ')).status, 400);
}

}  // namespace
}  // namespace cellbatch
