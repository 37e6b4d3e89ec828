#include "server/http/server_site.h"

#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/http/html_page.h"
#include "server/requests/client_identity.h"

namespace cellbatch {

namespace {

bool Allows(std::string_view methods, std::string_view asked) {
  if (asked == "HEAD") asked = "GET";
  return asked == methods || (methods == kGetOrPost && (asked == "GET" || asked == "POST"));
}

// A page for people: what their browser may do with it.
HttpReply ForPeople(HttpReply reply) {
  if (!reply.content_type.starts_with("text/html")) return reply;
  reply.headers.emplace_back("Content-Security-Policy", kPagePolicy);
  reply.headers.emplace_back("X-Content-Type-Options", "nosniff");
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

HttpRoute ReadOnly(const HttpRequest& head) {
  if (Allows("GET", head.method)) return {.where = HttpWhere::kPage};
  return {.refused = HttpReply{.status = 405, .body = "only GET and HEAD\n"}};
}

// What a probe asks takes a look at a flag or into a table, so the loop answers it, whatever else goes on.
HttpWhere WhereOf(KServeAsk ask) {
  switch (ask) {
    case KServeAsk::kLive:
    case KServeAsk::kReady:
    case KServeAsk::kModelReady:
      return HttpWhere::kNow;
    case KServeAsk::kInfer:
      return HttpWhere::kInfer;
    default:
      return HttpWhere::kPage;
  }
}

HttpRoute RouteOf(const HttpRequest& head) {
  const std::optional<KServePath> path = ParseKServePath(head.path);
  if (!path) return ReadOnly(head);
  const std::string_view methods = MethodsOf(path->ask);
  if (path->ask != KServeAsk::kUnserved && !Allows(methods, head.method)) {
    HttpReply reply =
        ErrorReply(absl::InvalidArgumentError(fmt::format("this path is asked with {}", methods)));
    reply.status = 405;
    reply.headers.emplace_back("Allow", std::string(methods));
    return {.refused = std::move(reply)};
  }
  HttpRoute route{.where = WhereOf(path->ask), .takes_body = head.method == "POST"};
  if (route.takes_body) route.refused = HttpInferService::RefuseHead(head);
  return route;
}

}  // namespace

// What a stranger sends is not taken: its head says already that it is one.
HttpRoute ServerSite::Route(const HttpRequest& head) const {
  HttpRoute route = RouteOf(head);
  if (tokens_ == nullptr || route.refused || route.where == HttpWhere::kNow) return route;
  const std::string* const authorization = head.Header(kAuthorizationHeader);
  const auto access = tokens_->Find(authorization == nullptr ? "" : *authorization);
  if (!access.ok()) route.refused = ErrorReply(access.status());
  return route;
}

// Of all but inference, whose call looks itself.
absl::Status ServerSite::CheckAccess(const HttpRequest& request, const KServePath& path) const {
  if (tokens_ == nullptr || WhereOf(path.ask) == HttpWhere::kNow) {
    return absl::OkStatus();
  }
  const std::string* const authorization = request.Header(kAuthorizationHeader);
  const auto found = tokens_->Find(authorization == nullptr ? "" : *authorization);
  if (!found.ok()) return found.status();
  const Access& access = **found;
  const bool changes = path.ask == KServeAsk::kLoad || path.ask == KServeAsk::kUnload ||
                       (path.ask == KServeAsk::kLogging && !request.body.empty());
  absl::Status status = changes ? access.MayControl() : absl::OkStatus();
  const bool of_models = path.ask == KServeAsk::kMetadata || path.ask == KServeAsk::kConfig ||
                         path.ask == KServeAsk::kStatistics || path.ask == KServeAsk::kLoad ||
                         path.ask == KServeAsk::kUnload;
  return status.ok() && of_models ? access.MayAsk(path.model) : status;
}

HttpSite ServerSite::All() const {
  return {.route = [this](const HttpRequest& head) { return Route(head); },
          .answer = [this](const std::shared_ptr<HttpExchange>& exchange) { Answer(exchange); }};
}

HttpSite ServerSite::MetricsAlone() const {
  return {.route = ReadOnly, .answer = [this](const std::shared_ptr<HttpExchange>& exchange) {
            const std::string& path = exchange->request().path;
            if (path == "/metrics" || path == "/") return exchange->Reply(Page("/metrics"));
            exchange->Reply({.status = 404, .body = "only /metrics is here\n"});
          }};
}

void ServerSite::Answer(const std::shared_ptr<HttpExchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  const std::optional<KServePath> path = ParseKServePath(request.path);
  if (!path) return exchange->Reply(Page(request.path));
  if (path->ask == KServeAsk::kInfer) return infer_.Answer(exchange, *path);
  if (absl::Status status = CheckAccess(request, *path); !status.ok()) {
    return exchange->Reply(ErrorReply(status));
  }
  if (path->ask == KServeAsk::kLoad || path->ask == KServeAsk::kUnload) {
    return kserve_.Change(*path, request.body,
                          [exchange](HttpReply reply) { exchange->Reply(std::move(reply)); });
  }
  exchange->Reply(kserve_.Answer(*path, request.body));
}

HttpReply ServerSite::Page(std::string_view path) const {
  if (path == "/") return ForPeople({200, "text/html; charset=utf-8", status_.Html()});
  if (path == "/status.js") return {200, "text/javascript; charset=utf-8", kStatusScript};
  if (path == "/metrics") return {200, MetricsExporter::kContentType, metrics_.Text()};
  constexpr std::string_view kExplain = "/explain/";
  if (path.starts_with(kExplain)) return ForPeople(explain_.Answer(path.substr(kExplain.size())));
  return {.status = 404, .body = "nothing is here; the status page is at /\n"};
}

}  // namespace cellbatch
