// What this server answers over HTTP, by path: probes on the loop, pages on the threads of pages, what is to be computed
// on those of inference.
//
// Where tokens are asked for (ServeTokens), all but probes need one: `Authorization: Bearer TOKEN`, or, of GET and HEAD, what a
// browser asks people for (basic_credential.h). What is refused costs a hash on the loop, and its body is not taken.
#ifndef CELLBATCH_SERVER_HTTP_SERVER_SITE_H_
#define CELLBATCH_SERVER_HTTP_SERVER_SITE_H_

#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/explain/explain_page.h"
#include "server/http/http_exchange.h"
#include "server/http/kserve/http_infer.h"
#include "server/http/kserve/kserve_pages.h"
#include "server/http/metrics_exporter.h"
#include "server/http/status/status_page.h"
#include "server/kserve/kserve_service.h"
#include "server/requests/access.h"

namespace cellbatch {

class ServerSite {
 public:
  // What it is given outlives it, and it the servers.
  ServerSite(const StatusPage& status, const MetricsExporter& metrics, const ExplainPage& explain,
             const KServeService& kserve, HttpInferService& infer)
      : status_(status), metrics_(metrics), explain_(explain), kserve_(kserve), infer_(infer) {}

  // Before All: who may ask; probes need no token. Outlives it.
  void ServeTokens(const AccessTable& tokens) { tokens_ = &tokens; }

  HttpSite All() const;  // of --http-address
  // Of --metrics-address; and the server's own probes, for who has no certificate where the other port asks for one.
  HttpSite MetricsAlone() const;

 private:
  HttpRoute Route(const HttpRequest& head) const;
  absl::StatusOr<std::shared_ptr<const Access>> Caller(const HttpRequest& request) const;
  void Answer(const std::shared_ptr<HttpExchange>& exchange) const;
  HttpReply Page(std::string_view path) const;

  const StatusPage& status_;
  const MetricsExporter& metrics_;
  const ExplainPage& explain_;
  const KServePages kserve_;
  HttpInferService& infer_;
  const AccessTable* tokens_ = nullptr;  // null: whoever likes
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_SERVER_SITE_H_
