// The server of HTTP/1.1 (Boost.Beast on Asio): for probes, scrapers, people and inference. All sockets are one loop's, one
// thread that never waits; a client that takes its time costs a place in a table and nothing else.
//
//   sockets <--> loop thread: heads, bodies, probes' answers, replies, time-outs, who goes when there is no room
//                  | pages             | to be computed
//                  v                   v
//              page threads (2)    infer threads (limits.infer_threads), a connection's requests all on one
//
// Every bound is in HttpLimits. Connections are bounded by a share of the files that the process may open, too, and some
// files are kept back for when others have taken all (descriptors.h).
#ifndef CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_
#define CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/http/connection_table.h"
#include "server/http/http_exchange.h"
#include "server/http/http_limits.h"
#include "server/tls/plain_end.h"

namespace cellbatch {

class HttpServer {
 public:
  // UNAVAILABLE: the address cannot be bound. `flag` names it in the error. `counts`
  // outlives the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(std::string_view flag,
                                                           const std::string& address,
                                                           const HttpLimits& limits, HttpSite site,
                                                           HttpCounts& counts);
  // Likewise, but others accept connections at that address, and give them to Take.
  static absl::StatusOr<std::unique_ptr<HttpServer>> StartBehind(std::string_view flag,
                                                                 const std::string& address,
                                                                 const HttpLimits& limits,
                                                                 HttpSite site, HttpCounts& counts);
  // Any thread; never waits.
  void Take(PlainEnd end);

  // Hangs up on everybody and waits for what its threads are at.
  ~HttpServer();

  // Takes no more connections, hangs up on those that are owed nothing, and waits until the others have their replies,
  // or for so long (0: for nobody). May be called again, to wait on.
  void Drain(std::chrono::milliseconds grace);

  const std::string& address() const { return address_; }  // host:port in use

 private:
  struct Impl;
  HttpServer(std::unique_ptr<Impl> impl, std::string address);
  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTTP_SERVER_H_
