// Inference over HTTP, as a call of the one way (requests/plain_call.h): admission, deadlines, cancels and counts are
// those of gRPC, and so are the bits.
//
//   infer thread                          responder thread
//   Answer(exchange): PlainCall::Start    the reply is written here, or, where it is long JSON, on the infer thread again
//   hung up: the call is cancelled
#ifndef CELLBATCH_SERVER_HTTP_KSERVE_HTTP_INFER_H_
#define CELLBATCH_SERVER_HTTP_KSERVE_HTTP_INFER_H_

#include <memory>
#include <optional>

#include "server/http/http_exchange.h"
#include "server/http/kserve/kserve_path.h"
#include "server/requests/request_path.h"
#include "server/wire/refusal_counts.h"
#include "server/wire/wire_limits.h"

namespace cellbatch {

class HttpInferService {
 public:
  // `path` outlives it. `first_shard`: of `path`'s transport threads the one that the first infer thread is.
  HttpInferService(RequestPath& path, int first_shard, const WireLimits& limits = {},
                   RefusalCounts* counts = nullptr)
      : path_(path), first_shard_(first_shard), limits_(limits), counts_(counts) {}

  // Before the first request: who may ask. Outlives it.
  void ServeTokens(const AccessTable& tokens) { tokens_ = &tokens; }

  // None: its body will be taken. Else why not: 415 for one that is compressed.
  static std::optional<HttpReply> RefuseHead(const HttpRequest& head);

  // On the exchange's infer thread.
  void Answer(const std::shared_ptr<HttpExchange>& exchange, const KServePath& target);

 private:
  RequestPath& path_;
  const int first_shard_;
  const WireLimits limits_;
  RefusalCounts* const counts_;
  const AccessTable* tokens_ = nullptr;  // null: whoever likes
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_KSERVE_HTTP_INFER_H_
