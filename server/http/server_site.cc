#include "server/http/server_site.h"

#include <memory>
#include <string>
#include <utility>

#include "proto/grpc_service.pb.h"

namespace cellbatch {

namespace {

HttpReply ReadyReply(bool ready) {
  return {.status = ready ? 200 : 503, .body = ready ? "ready\n" : "not ready\n"};
}

bool IsModelReady(std::string_view path) {
  return path.starts_with("/v2/models/") && path.ends_with("/ready");
}

// What a probe asks takes a look at a flag or into a table, so the loop answers it, whatever else goes on.
bool IsProbe(std::string_view path) {
  return path == "/v2/health/live" || path == "/v2/health/ready" || IsModelReady(path);
}

HttpRoute ReadOnly(const HttpRequest& head, HttpWhere where) {
  if (head.method == "GET" || head.method == "HEAD") return {.where = where};
  return {.refused = HttpReply{.status = 405, .body = "only GET and HEAD\n"}};
}

}  // namespace

HttpSite ServerSite::All() const {
  return {.route =
              [](const HttpRequest& head) {
                return ReadOnly(head, IsProbe(head.path) ? HttpWhere::kNow : HttpWhere::kPage);
              },
          .answer =
              [this](const std::shared_ptr<HttpExchange>& exchange) {
                exchange->Reply(Answer(exchange->request().path));
              }};
}

HttpSite ServerSite::MetricsAlone() const {
  return {.route = [](const HttpRequest& head) { return ReadOnly(head, HttpWhere::kPage); },
          .answer =
              [this](const std::shared_ptr<HttpExchange>& exchange) {
                const std::string& path = exchange->request().path;
                if (path == "/metrics" || path == "/") return exchange->Reply(Answer("/metrics"));
                exchange->Reply({.status = 404, .body = "only /metrics is here\n"});
              }};
}

HttpReply ServerSite::Answer(std::string_view path) const {
  if (path == "/") return {200, "text/html; charset=utf-8", status_.Html()};
  if (path == "/v2/health/live") return {.body = "live\n"};
  if (path == "/v2/health/ready") return ReadyReply(lifecycle_.ready());
  if (path == "/metrics") return {200, MetricsExporter::kContentType, metrics_.Text()};
  constexpr std::string_view kExplain = "/explain/";
  if (path.starts_with(kExplain)) return explain_.Answer(path.substr(kExplain.size()));
  if (IsModelReady(path)) return ModelReady(path);
  return {.status = 404, .body = "nothing is here; the status page is at /\n"};
}

// /v2/models/NAME/ready and /v2/models/NAME/versions/VERSION/ready
HttpReply ServerSite::ModelReady(std::string_view path) const {
  constexpr std::string_view kBefore = "/v2/models/", kVersions = "/versions/", kAfter = "/ready";
  if (path.size() <= kBefore.size() + kAfter.size()) return {.status = 404, .body = "no model\n"};
  const std::string_view named =
      path.substr(kBefore.size(), path.size() - kBefore.size() - kAfter.size());
  inference::ModelReadyRequest request;
  const size_t versions = named.find(kVersions);
  request.set_name(std::string(named.substr(0, versions)));
  if (versions != named.npos) {
    request.set_version(std::string(named.substr(versions + kVersions.size())));
  }
  const auto ready = kserve_.ModelReady(request);
  if (!ready.ok()) return {.status = 404, .body = std::string(ready.status().message()) + "\n"};
  return ReadyReply(ready->ready());
}

}  // namespace cellbatch
