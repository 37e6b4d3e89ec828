#include "server/http/http_connection.h"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/field.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "scheduler/clock.h"
#include "server/grpc/listening_socket.h"

namespace cellbatch {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr size_t kReadBytes = 16 << 10;  // of a body at a time
constexpr size_t kLingerBytes = 1 << 20;
constexpr std::chrono::milliseconds kLingerTime{2000};

std::string Text(boost::beast::string_view text) { return {text.data(), text.size()}; }

// A target may be a whole address, as a client of a proxy writes it (RFC 9112, 3.2.2): what is asked for begins behind the authority.
std::string WithoutAuthority(const std::string& target) {
  for (const char* const scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(target, scheme)) continue;
    const size_t end = target.find_first_of("/?", std::strlen(scheme));
    if (end == target.npos) return "/";
    return target[end] == '/' ? target.substr(end) : "/" + target.substr(end);
  }
  return target;
}

}  // namespace

// What those who answer hold; the connection may end before. The mutex orders Reply, OnHangUp and the hang-up. What is to be
// done at a hang-up is done without it: it may end the call there and then, and so reply.
class SocketExchange final : public HttpExchange {
 public:
  SocketExchange(std::shared_ptr<HttpHost> host, std::weak_ptr<HttpConnection> connection,
                 HttpRequest request, std::string peer, int thread)
      : host_(std::move(host)),
        connection_(std::move(connection)),
        request_(std::move(request)),
        peer_(std::move(peer)),
        received_ns_(SteadyClock().NowNs()),
        thread_(thread) {}

  const HttpRequest& request() const override { return request_; }
  std::string_view peer() const override { return peer_; }
  int64_t received_ns() const override { return received_ns_; }
  int thread() const override { return thread_; }

  void OnHangUp(std::function<void()> gone) override {
    {
      const std::lock_guard lock(mutex_);
      if (replied_) return;
      if (!hung_up_) {
        gone_ = std::move(gone);
        return;
      }
    }
    gone();
  }

  void Run(std::function<void()> work) override {
    const std::lock_guard lock(mutex_);
    if (!hung_up_) host_->run(HttpWhere::kInfer, thread_, std::move(work));
  }

  void Reply(HttpReply reply) override {
    const std::lock_guard lock(mutex_);
    gone_ = nullptr;
    replied_ = true;
    if (hung_up_) return;  // and the loop may have ended, too
    asio::post(host_->loop, [connection = connection_, reply = std::move(reply)]() mutable {
      if (const auto alive = connection.lock()) alive->Send(std::move(reply), false);
    });
  }

  // On the loop, so the infer threads are there: ~Impl joins it before them.
  void HangUp() {
    std::function<void()> gone;
    {
      const std::lock_guard lock(mutex_);
      hung_up_ = true;
      gone = std::exchange(gone_, nullptr);
    }
    if (gone) host_->run(HttpWhere::kInfer, thread_, std::move(gone));
  }

 private:
  const std::shared_ptr<HttpHost> host_;
  const std::weak_ptr<HttpConnection> connection_;
  const HttpRequest request_;
  const std::string peer_;
  const int64_t received_ns_;
  const int thread_;
  std::mutex mutex_;
  bool hung_up_ = false, replied_ = false;
  std::function<void()> gone_;
};

HttpConnection::HttpConnection(std::shared_ptr<HttpHost> host, Socket socket, int thread,
                               const PlainEnd& behind)
    : host_(std::move(host)),
      socket_(std::move(socket)),
      timer_(host_->loop),
      buffer_(static_cast<size_t>(host_->limits.max_header_bytes) + kReadBytes),
      thread_(thread),
      address_(behind.address),
      certificate_(behind.certificate) {}

void HttpConnection::Start() {
  Error ignored;  // of a pair, which delays nothing
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  peer_ = address_.empty() ? PeerOf(socket_.native_handle()) : address_;
  Allow(host_->limits.header_timeout, HttpCut::kHead);
  ReadHead();
}

void HttpConnection::Allow(std::chrono::milliseconds time, std::optional<HttpCut> otherwise) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), otherwise, mine = ++allowance_](Error error) {
    if (error || self->closed_ || mine != self->allowance_) return;
    otherwise ? self->host_->table.Cut(*self, *otherwise) : self->Close();
  });
}

// The next request of a connection that is kept: its first byte begins a head.
void HttpConnection::Await() {
  if (host_->draining) return Close();
  request_ = {};
  buffer_.shrink_to_fit();
  if (buffer_.size() > 0) {
    host_->table.Move(*this, HttpStage::kHead);
    Allow(host_->limits.header_timeout, HttpCut::kHead);
    return ReadHead();
  }
  host_->table.Move(*this, HttpStage::kIdle);
  Allow(host_->limits.idle_timeout, HttpCut::kIdle);
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](Error error) {
    if (self->closed_) return;
    if (error) return self->Close();
    self->host_->table.Move(*self, HttpStage::kHead);
    self->Allow(self->host_->limits.header_timeout, HttpCut::kHead);
    self->ReadHead();
  });
}

void HttpConnection::ReadHead() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(host_->limits.max_header_bytes));
  parser_->body_limit(static_cast<uint64_t>(host_->limits.max_body_bytes));
  http::async_read_header(
      socket_, buffer_, *parser_,
      [self = shared_from_this()](Error error, size_t) { self->OnHead(error); });
}

void HttpConnection::OnHead(Error error) {
  if (closed_) return;
  if (error) return RefuseHead(error);
  TakeHead();
  if (!KnowsEnd()) {
    return Send(Refusal(400, "Transfer-Encoding: nothing but chunked, and that once"), true);
  }
  if (route_.refused) return Send(*std::exchange(route_.refused, {}), !parser_->is_done());
  if (parser_->is_done()) return Ask();
  if (!route_.takes_body) return Send(Refusal(400, "no body is taken here"), true);
  host_->table.Move(*this, HttpStage::kBody);
  Allow(host_->limits.body_timeout, HttpCut::kBody);
  if (!ExpectsContinue()) return ReadBody();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(kContinue),
                    [self = shared_from_this()](Error failed, size_t) {
                      if (self->closed_) return;
                      failed ? self->Close() : self->ReadBody();
                    });
}

void HttpConnection::RefuseHead(Error error) {
  head_only_ = false;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Send(Refusal(431, "the head is longer than --http-max-header-bytes"), true);
  }
  Refuse(error);
}

HttpReply HttpConnection::Refusal(int status, const std::string& why) const {
  HttpReply reply = host_->site.refusal ? host_->site.refusal(why) : HttpReply{.body = why + "\n"};
  reply.status = status;
  return reply;
}

// Of a head or of a body.
void HttpConnection::Refuse(Error error) {
  if (error == http::error::body_limit) {
    return Send(TooLong(), true);
  }
  const bool hung_up =
      error == http::error::end_of_stream || error == http::error::partial_message ||
      error.category() != http::make_error_code(http::error::bad_method).category();
  if (hung_up) return Close();
  Send(Refusal(400, "this is not HTTP/1.1: " + error.message()), true);
}

// A body that comes in chunks does not say how long it is.
HttpReply HttpConnection::TooLong() const {
  const boost::optional<uint64_t> length = parser_->content_length();
  const int64_t most = host_->limits.max_body_bytes;
  return Refusal(
      413, length ? fmt::format("the body has {} bytes, the most is {} (--http-max-body-bytes)",
                                *length, most)
                  : fmt::format("the body has more than {} bytes (--http-max-body-bytes)", most));
}

void HttpConnection::TakeHead() {
  const auto& head = parser_->get();
  keep_alive_ = head.keep_alive();
  old_ = head.version() < 11;
  head_only_ = head.method() == http::verb::head;
  request_.method = Text(head.method_string());
  request_.address = address_;
  request_.certificate = certificate_;
  const std::string target = WithoutAuthority(Text(head.target()));
  const size_t query = target.find('?');
  request_.path = target.substr(0, query);
  if (query != target.npos) request_.query = target.substr(query + 1);
  for (const auto& field : head) {
    request_.headers.emplace_back(Text(field.name_string()), Text(field.value()));
  }
  route_ = host_->site.route(request_);
  if (!route_.refused && route_.where != HttpWhere::kNow && !host_->table.MayAnswer()) {
    route_.refused = Refusal(503,
                             "as many requests are being answered as there may be "
                             "(--http-max-connections)");
    route_.refused->headers.emplace_back("Retry-After", "1");
  }
}

// Beast takes a body in another coding for none, and would read it as the next request: somebody else's, where a proxy that
// knows better has several of them on this connection.
bool HttpConnection::KnowsEnd() {
  const auto& head = parser_->get();
  const size_t codings = head.count(http::field::transfer_encoding);
  return codings == 0 ||
         (codings == 1 && beast::iequals(head[http::field::transfer_encoding], "chunked"));
}

bool HttpConnection::ExpectsContinue() {
  const auto& head = parser_->get();
  return head.version() >= 11 && beast::iequals(head[http::field::expect], "100-continue");
}

void HttpConnection::ReadBody() {
  buffer_.reserve(std::min(buffer_.max_size(), kReadBytes));
  std::string& body = request_.body;
  const size_t had = body.size();
  body.resize(had + kReadBytes);
  auto& to = parser_->get().body();
  to.data = body.data() + had;
  to.size = kReadBytes;
  http::async_read(socket_, buffer_, *parser_, [self = shared_from_this()](Error error, size_t) {
    self->OnBody(error, kReadBytes);
  });
}

void HttpConnection::OnBody(Error error, size_t asked) {
  if (closed_) return;
  request_.body.resize(request_.body.size() - asked + (asked - parser_->get().body().size));
  if (error && error != http::error::need_buffer) return Refuse(error);
  host_->table.Hold(*this, static_cast<int64_t>(request_.body.capacity()));
  if (closed_) return;
  parser_->is_done() ? Ask() : ReadBody();
}

void HttpConnection::Ask() {
  host_->table.Move(*this, HttpStage::kAnswer);
  ++allowance_;  // ours to take the time
  timer_.cancel();
  exchange_ = std::make_shared<SocketExchange>(host_, weak_from_this(), std::move(request_), peer_,
                                               thread_);
  if (route_.where == HttpWhere::kNow) return host_->site.answer(exchange_);
  WatchForHangUp();
  host_->run(route_.where, thread_,
             [host = host_, exchange = exchange_]() mutable { host->site.answer(exchange); });
}

// While we compute, nothing is read; that there is something to read may be the end of it. Bytes of a next request
// hide the end behind them: it is seen when the reply is sent.
void HttpConnection::WatchForHangUp() {
  if (std::exchange(watching_, true)) return;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](Error error) {
    self->watching_ = false;
    if (self->closed_ || self->stage() != HttpStage::kAnswer) return;
    char byte = 0;
    const ssize_t got = recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    const bool nothing_yet = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (error || (got <= 0 && !nothing_yet)) self->Close();
  });
}

void HttpConnection::Send(HttpReply reply, bool last) {
  if (closed_) return;
  exchange_.reset();
  host_->table.Move(*this, HttpStage::kReply);
  keep_alive_ = keep_alive_ && !last && !host_->draining;
  response_ = {};
  response_.version(11);
  response_.result(static_cast<unsigned>(reply.status));
  response_.keep_alive(keep_alive_);
  // Who speaks 1.0 waits for the end of the connection, unless told that there is none.
  if (keep_alive_ && old_) response_.set(http::field::connection, "keep-alive");
  response_.set(http::field::content_type, reply.content_type);
  response_.set(http::field::cache_control, "no-store");
  response_.set("X-Content-Type-Options", "nosniff");
  // Its own take the place of those above; two of one name (ways to say who one is) both stand.
  for (const auto& [name, value] : reply.headers) response_.erase(name);
  for (const auto& [name, value] : reply.headers) response_.insert(name, value);
  response_.content_length(reply.body.size());
  if (!head_only_) response_.body() = std::move(reply.body);
  held_ = std::move(reply.held);
  request_.body = {};
  host_->table.Hold(*this, static_cast<int64_t>(response_.body().capacity()));
  Allow(host_->limits.reply_timeout, HttpCut::kUnread);
  writer_.emplace(response_);
  http::async_write(socket_, *writer_,
                    [self = shared_from_this()](Error error, size_t) { self->OnSent(error); });
}

void HttpConnection::OnSent(Error error) {
  if (closed_) return;
  if (error) return Close();
  writer_.reset();
  response_ = {};
  held_.reset();
  host_->table.Hold(*this, 0);
  keep_alive_ ? Await() : Linger();
}

// Closing with bytes unread would reset the connection, and the client might never see the reply: read on for a while.
void HttpConnection::Linger() {
  Error ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  Allow(kLingerTime, std::nullopt);
  buffer_.clear();
  Discard(kLingerBytes);
}

void HttpConnection::Discard(size_t left) {
  socket_.async_read_some(buffer_.prepare(std::min(buffer_.max_size(), size_t{4096})),
                          [self = shared_from_this(), left](Error error, size_t read) {
                            if (self->closed_) return;
                            if (error || read > left) return self->Close();
                            self->Discard(left - read);
                          });
}

void HttpConnection::Cut(HttpCut reason) {
  if (reason != HttpCut::kIdle && stage() != HttpStage::kIdle) {
    Error ignored;  // nothing of it stays in the kernel either
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  }
  Close();
}

void HttpConnection::Close() {
  if (std::exchange(closed_, true)) return;
  const auto self = shared_from_this();
  Error ignored;
  timer_.cancel();
  socket_.close(ignored);
  host_->table.Remove(*this);
  held_.reset();
  if (exchange_ != nullptr) std::exchange(exchange_, nullptr)->HangUp();
  host_->ended();
}

}  // namespace cellbatch
