// A small HTTP server (civetweb) for probes, scrapers and people: one function answers every GET.
// Its threads are civetweb's; the function is called by several at once.
#ifndef CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_
#define CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace cellbatch {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

// `path`: without query, as sent (not decoded).
using HttpAnswer = std::function<HttpReply(std::string_view path)>;

class HttpServer {
 public:
  // UNAVAILABLE: the address cannot be bound. `flag` names it in the error.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view flag,
                                                           const std::string& address,
                                                           HttpAnswer answer);
  ~HttpServer();                                           // waits for answers under way
  const std::string& address() const { return address_; }  // host:port in use

 private:
  struct Impl;
  HttpServer(std::unique_ptr<Impl> impl, std::string address);
  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_
