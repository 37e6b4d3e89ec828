// One client's connection, one request after the other: Boost.Beast parses and writes, this says who waits for whom
// and for how long. On the server's loop alone, except an exchange's Reply and OnHangUp.
//
//   kIdle --> kHead --> kBody --> kAnswer --> kReply --> kIdle | end
//               \---------(no body)--^
//
// Each stage has its time, its bytes and its place in the table of connections, which may end it at any moment.
#ifndef CELLBATCH_SERVER_HTTP_HTTP_CONNECTION_H_
#define CELLBATCH_SERVER_HTTP_HTTP_CONNECTION_H_

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/http/connection_table.h"
#include "server/http/http_exchange.h"
#include "server/http/http_limits.h"
#include "server/tls/plain_end.h"

namespace cellbatch {

class SocketExchange;

// What connections of one server share. Outlives them all, and the exchanges, which may end last.
struct HttpHost {
  HttpLimits limits;
  HttpSite site;
  boost::asio::io_context& loop;
  ConnectionTable& table;
  // Runs it on a page thread or on that infer thread.
  std::function<void(HttpWhere where, int thread, std::function<void()> work)> run;
  // A connection has ended.
  std::function<void()> ended;
  bool draining = false;  // every reply is a connection's last
};

class HttpConnection final : public ConnectionTable::Entry,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;  // TCP's, or a pair's

  // `thread`: the infer thread of its requests; `behind`: who it was accepted of, if others did.
  HttpConnection(std::shared_ptr<HttpHost> host, Socket socket, int thread, const PlainEnd& behind);

  // Once it is in the table.
  void Start();
  void Cut(HttpCut reason) override;
  void Close();
  // The answer of the request under way; `last`: the connection ends with it.
  void Send(HttpReply reply, bool last);

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;
  using Error = boost::beast::error_code;

  void Await();
  void ReadHead();
  void OnHead(Error error);
  void RefuseHead(Error error);
  void Refuse(Error error);
  HttpReply Refusal(int status, const std::string& why) const;
  HttpReply TooLong() const;
  void TakeHead();
  bool KnowsEnd();
  bool ExpectsContinue();
  void ReadBody();
  void OnBody(Error error, size_t asked);
  void Ask();
  void WatchForHangUp();
  void OnSent(Error error);
  void Linger();
  void Discard(size_t left);

  // Until then; `otherwise`: what is counted if it was not enough, none if that is as it should be.
  void Allow(std::chrono::milliseconds time, std::optional<HttpCut> otherwise);

  const std::shared_ptr<HttpHost> host_;  // before the socket, which needs its loop to go
  Socket socket_;
  boost::asio::steady_timer timer_;
  boost::beast::flat_buffer buffer_;
  const int thread_;
  const std::string address_, certificate_;  // HttpRequest's
  std::string peer_;
  uint64_t allowance_ = 0;  // which of the timer's waits counts
  std::optional<Parser> parser_;
  HttpRequest request_;
  HttpRoute route_;
  bool keep_alive_ = false, old_ = false, head_only_ = false, watching_ = false, closed_ = false;
  std::shared_ptr<SocketExchange> exchange_;  // while it is answered
  Response response_;
  std::shared_ptr<const void> held_;  // the reply's, while it is sent
  std::optional<boost::beast::http::response_serializer<boost::beast::http::string_body>> writer_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_HTTP_HTTP_CONNECTION_H_
