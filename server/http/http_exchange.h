// What a request over HTTP is to those who answer it. Knows no library: http_server.h speaks it over sockets.
//
//   HttpServer's loop             page thread, infer thread        any thread
//   -----------------             -------------------------        ----------
//   head is there: site.route
//   body is there -- kNow:  site.answer
//                 -- else ------> site.answer(exchange)
//   client hangs up ------------> what OnHangUp was given
//                                                             exchange->Reply(reply)
//   the reply is sent <---------------------------------------------+
#ifndef CELLBATCH_SERVER_HTTP_HTTP_EXCHANGE_H_
#define CELLBATCH_SERVER_HTTP_HTTP_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cellbatch {

struct HttpReply {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers =
      {};  // beyond those that every reply has
  // Let go of when the client has the reply, or is gone: what it takes of the server till then.
  std::shared_ptr<const void> held = nullptr;
};

struct HttpRequest {
  std::string method;
  std::string path;                                          // without query, as sent (not decoded)
  std::string query;                                         // without '?'
  std::vector<std::pair<std::string, std::string>> headers;  // in their order; names as sent
  std::string body;
  // Of a connection that was accepted for us (server/tls): who is behind it, and what its certificate names. Else empty.
  std::string address = {}, certificate = {};

  // The first of that name, whatever its case; null: not there.
  const std::string* Header(std::string_view name) const;
};

// One request, from its last byte to its reply. Held by whoever will answer.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  HttpExchange() = default;
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  virtual const HttpRequest& request() const = 0;
  // Steady-clock nanoseconds, when the whole request was there.
  virtual int64_t received_ns() const = 0;
  // Who asks, as gRPC spells it: "ipv4:10.0.0.7:43210"; empty: not known.
  virtual std::string_view peer() const { return {}; }
  // Which infer thread it was given to, from 0.
  virtual int thread() const = 0;
  // Of what an infer thread answers, at most once, on that thread: what to do when the client hangs up before its reply is
  // there. Done on that thread, too, later; or at once, if that has happened already; or never, if the reply was first. Beside
  // a reply it may come late. With no lock of ours, so it may reply.
  virtual void OnHangUp(std::function<void()> gone) = 0;
  // Does it on the infer thread it was given to, later. Of a client that has hung up: not at all.
  virtual void Run(std::function<void()> work) = 0;
  // Exactly once, from any thread. The reply of a client that has hung up goes nowhere.
  virtual void Reply(HttpReply reply) = 0;
};

// Where a request is answered: on the loop itself, which must never wait (probes, so that nothing else can stand in
// their way); by the threads of pages; or by those of inference.
enum class HttpWhere : uint8_t { kNow, kPage, kInfer };

struct HttpRoute {
  std::optional<HttpReply> refused = {};  // without looking at the body
  HttpWhere where = HttpWhere::kPage;
  bool takes_body = false;  // else a body is refused
};

// What a server serves. `route` sees the head alone, on the loop. `answer` replies, then or later.
struct HttpSite {
  std::function<HttpRoute(const HttpRequest& head)> route;
  std::function<void(std::shared_ptr<HttpExchange> exchange)> answer;
  // What is told, whatever the status, of what the connection itself refuses: too long, too many. Null: a line of text.
  std::function<HttpReply(const std::string& why)> refusal = nullptr;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTTP_EXCHANGE_H_
