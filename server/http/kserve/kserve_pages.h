// Everything of KServe v2 over HTTP but inference: the answers that gRPC gives, as JSON; errors as Triton spells them.
// Any thread.
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PAGES_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PAGES_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/http/http_exchange.h"
#include "server/http/kserve/kserve_path.h"
#include "server/kserve/kserve_service.h"
#include "server/requests/access.h"

namespace cellbatch {

inline constexpr const char* kJsonType = "application/json";

// {"error": ".."} with the status of HTTP that says the same; `pushback_ms` as Retry-After, if trying again helps.
HttpReply ErrorReply(const absl::Status& status, std::optional<int32_t> pushback_ms = std::nullopt);

class KServePages {
 public:
  // Outlives it.
  explicit KServePages(const KServeService& kserve) : kserve_(kserve) {}

  // Of any path but inference, load and unload. `body` is the request's; `by`: who asks (null: anybody), who may.
  HttpReply Answer(const KServePath& path, std::string_view body, const Access* by = nullptr) const;
  // Of load and unload: `reply` is called once, with what became of it, seconds later on another thread, or at once.
  void Change(const KServePath& path, std::string_view body,
              std::function<void(HttpReply)> reply) const;

 private:
  HttpReply Index(std::string_view body, const Access* by) const;
  HttpReply Logging(std::string_view body) const;
  HttpReply Tracing(const std::string& model, std::string_view body) const;

  const KServeService& kserve_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_KSERVE_PAGES_H_
