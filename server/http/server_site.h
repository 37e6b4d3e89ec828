// What this server answers over HTTP, by path: probes on the loop, pages on the threads of pages.
#ifndef CELLBATCH_SERVER_HTTP_SERVER_SITE_H_
#define CELLBATCH_SERVER_HTTP_SERVER_SITE_H_

#include <string_view>

#include "server/explain/explain_page.h"
#include "server/http/http_exchange.h"
#include "server/http/metrics_exporter.h"
#include "server/http/status_page.h"
#include "server/kserve/kserve_service.h"
#include "server/lifecycle.h"

namespace cellbatch {

class ServerSite {
 public:
  // What it is given outlives it, and it the servers.
  ServerSite(const StatusPage& status, const MetricsExporter& metrics, const ExplainPage& explain,
             const KServeService& kserve, const Lifecycle& lifecycle)
      : status_(status),
        metrics_(metrics),
        explain_(explain),
        kserve_(kserve),
        lifecycle_(lifecycle) {}

  HttpSite All() const;           // of --http-address
  HttpSite MetricsAlone() const;  // of --metrics-address

 private:
  HttpReply Answer(std::string_view path) const;
  HttpReply ModelReady(std::string_view path) const;

  const StatusPage& status_;
  const MetricsExporter& metrics_;
  const ExplainPage& explain_;
  const KServeService& kserve_;
  const Lifecycle& lifecycle_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_SERVER_SITE_H_
