#include "server/http/server_site.h"

#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/http/basic_credential.h"
#include "server/http/html_page.h"
#include "server/requests/client_identity.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr std::string_view kExplain = "/explain/";

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
  return {.refused = HttpReply{
              .status = 405, .body = "only GET and HEAD\n", .headers = {{"Allow", "GET, HEAD"}}}};
}

// Whoever asks below it is a client of KServe's protocol, whose errors are JSON.
bool IsOfProtocol(std::string_view path) { return path == "/v2" || path.starts_with("/v2/"); }

HttpReply NothingHere(std::string_view path) {
  if (!IsOfProtocol(path)) {
    return {.status = 404, .body = "nothing is here; the status page is at /\n"};
  }
  return ErrorReply(absl::NotFoundError(fmt::format(
      "nothing is at {}, which is no path of KServe's or Triton's protocol", Quoted(path))));
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
  if (!path && IsOfProtocol(head.path)) {
    HttpRoute route = ReadOnly(head);
    if (route.refused) route.refused = NothingHere(head.path);
    return route;
  }
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

bool IsHealth(const std::optional<KServePath>& path) {
  return path && (path->ask == KServeAsk::kLive || path->ask == KServeAsk::kReady);
}

bool ChangesNothing(const HttpRequest& head) { return Allows("GET", head.method); }

// How a call that is no inference ended, as its token's counts tell it (AccessOutcome).
absl::Status StatusOf(const HttpReply& reply) {
  if (reply.status < 400) return absl::OkStatus();
  if (reply.status == 403) return absl::PermissionDeniedError("");
  if (reply.status == 429) return absl::ResourceExhaustedError("");
  return absl::UnknownError("");
}

// The model whose page of that kind this is.
std::optional<std::string> ExplainedBy(std::string_view path) {
  if (!path.starts_with(kExplain)) return std::nullopt;
  return PercentDecoded(path.substr(kExplain.size()));
}

// Of a page for people: all that shows every model asks of all of them.
absl::Status MayLookAt(std::string_view path, const Access& by) {
  if (const auto model = ExplainedBy(path)) return by.MayAsk(*model);
  return path == "/" || path == "/metrics" ? by.MayAsk("") : absl::OkStatus();
}

// Whether it may, of all but inference, whose call looks itself. `path`: none, a page for people; `by`: null, whoever likes.
absl::Status MayAskFor(const HttpRequest& request, const std::optional<KServePath>& path,
                       const Access* by) {
  if (by == nullptr) return absl::OkStatus();
  if (!path) return MayLookAt(request.path, *by);
  const bool settings = path->ask == KServeAsk::kLogging || path->ask == KServeAsk::kTrace;
  const bool changes = path->ask == KServeAsk::kLoad || path->ask == KServeAsk::kUnload ||
                       (settings && !request.body.empty());
  absl::Status status = changes ? by->MayControl() : absl::OkStatus();
  const bool of_models = path->ask == KServeAsk::kMetadata || path->ask == KServeAsk::kConfig ||
                         path->ask == KServeAsk::kStatistics || path->ask == KServeAsk::kLoad ||
                         path->ask == KServeAsk::kUnload || (settings && !path->model.empty());
  return status.ok() && of_models ? by->MayAsk(path->model) : status;
}

}  // namespace

// Who asks. Null: nobody is asked.
absl::StatusOr<std::shared_ptr<const Access>> ServerSite::Caller(const HttpRequest& request) const {
  if (tokens_ == nullptr) return nullptr;
  const std::string* const brought = request.Header(kAuthorizationHeader);
  const std::string_view authorization = brought == nullptr ? "" : std::string_view(*brought);
  if (!ChangesNothing(request) || !IsBasic(authorization)) return tokens_->Find(authorization);
  const std::string bearer = BearerOfBasic(authorization);
  auto found = tokens_->Find(bearer.empty() ? authorization : bearer);
  if (!bearer.empty()) return found;
  return absl::UnauthenticatedError(
      "its Basic credential is not base64 of NAME:TOKEN, of any name (--tokens)");
}

// What a stranger sends is not taken: its head says already that it is one.
HttpRoute ServerSite::Route(const HttpRequest& head) const {
  HttpRoute route = RouteOf(head);
  if (route.refused || route.where == HttpWhere::kNow) return route;
  const auto caller = Caller(head);
  if (caller.ok()) return route;
  route.refused = ErrorReply(caller.status());
  if (ChangesNothing(head)) {
    // First: browsers take the first that they know.
    route.refused->headers.emplace(route.refused->headers.begin(), "WWW-Authenticate",
                                   kBasicChallenge);
  }
  return route;
}

HttpSite ServerSite::All() const {
  return {.route = [this](const HttpRequest& head) { return Route(head); },
          .answer = [this](const std::shared_ptr<HttpExchange>& exchange) { Answer(exchange); },
          .refusal =
              [](const std::string& why) {
                return ErrorReply(absl::InvalidArgumentError(why));  // its own status is put there
              }};
}

HttpSite ServerSite::MetricsAlone() const {
  return {
      .route =
          [](const HttpRequest& head) {
            HttpRoute route = ReadOnly(head);
            if (IsHealth(ParseKServePath(head.path))) route.where = HttpWhere::kNow;
            return route;
          },
      .answer =
          [this](const std::shared_ptr<HttpExchange>& exchange) {
            const std::string& path = exchange->request().path;
            if (path == "/metrics" || path == "/") return exchange->Reply(Page("/metrics"));
            const std::optional<KServePath> health = ParseKServePath(path);
            if (IsHealth(health)) return exchange->Reply(kserve_.Answer(*health, ""));
            exchange->Reply({.status = 404, .body = "only /metrics and /v2/health/.. are here\n"});
          }};
}

void ServerSite::Answer(const std::shared_ptr<HttpExchange>& exchange) const {
  const HttpRequest& request = exchange->request();
  const std::optional<KServePath> path = ParseKServePath(request.path);
  if (path && path->ask == KServeAsk::kInfer) return infer_.Answer(exchange, *path);
  std::shared_ptr<const Access> by;
  if (!path || WhereOf(path->ask) != HttpWhere::kNow) {
    auto caller = Caller(request);
    if (!caller.ok()) return exchange->Reply(ErrorReply(caller.status()));
    by = *std::move(caller);
  }
  const auto end = [exchange, by](HttpReply reply) {
    if (by != nullptr) by->Count(StatusOf(reply));
    exchange->Reply(std::move(reply));
  };
  if (absl::Status status = MayAskFor(request, path, by.get()); !status.ok()) {
    return end(ErrorReply(status));
  }
  if (!path) return end(Page(request.path));
  if (path->ask == KServeAsk::kLoad || path->ask == KServeAsk::kUnload) {
    return kserve_.Change(*path, request.body, end);
  }
  end(kserve_.Answer(*path, request.body, by.get()));
}

HttpReply ServerSite::Page(std::string_view path) const {
  if (path == "/") return ForPeople({200, "text/html; charset=utf-8", status_.Html()});
  if (path == "/status.js") return {200, "text/javascript; charset=utf-8", kStatusScript};
  if (path == "/metrics") return {200, MetricsExporter::kContentType, metrics_.Text()};
  if (const auto model = ExplainedBy(path)) return ForPeople(explain_.Answer(*model));
  return NothingHere(path);
}

}  // namespace cellbatch
