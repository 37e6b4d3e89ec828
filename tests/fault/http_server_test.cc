// The server of HTTP over real sockets of the loopback interface, and a site that answers as the tests wish.
#include "server/http/http_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/grpc/listening_socket.h"
#include "server/http/descriptors.h"
#include "tests/e2e/tcp_connection.h"

namespace cellbatch {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::StartsWith;

// Limits that no test of something else meets.
HttpLimits Wide() {
  return {.header_timeout = hours(1),
          .body_timeout = hours(1),
          .reply_timeout = hours(1),
          .idle_timeout = hours(1)};
}

// GET /live on the loop; /page/N is N bytes; POST /echo is its body, /peer who asks; POST /wait is answered by the test, and
// /last as soon as its client has hung up; of what becomes of /alone's nobody hears.
class HttpServerTest : public ::testing::Test {
 protected:
  void Start(const HttpLimits& limits, const std::string& address = "127.0.0.1:0") {
    HttpSite site{.route = Route, .answer = [this](auto exchange) { Answer(std::move(exchange)); }};
    server_.reset();
    for (auto& cut : counts_.cut) cut = 0;
    auto server = HttpServer::Start("http-address", address, limits, std::move(site), counts_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  static HttpRoute Route(const HttpRequest& head) {
    if (head.path == "/live") return {.where = HttpWhere::kNow};
    if (head.path.starts_with("/page/")) return {.where = HttpWhere::kPage};
    if (head.method == "POST") return {.where = HttpWhere::kInfer, .takes_body = true};
    return {.refused = HttpReply{.status = 404, .body = "nothing\n"}};
  }
  void Answer(std::shared_ptr<HttpExchange> exchange) {
    const HttpRequest& request = exchange->request();
    if (request.path == "/live") return exchange->Reply({.body = "live\n"});
    if (request.path == "/echo") return exchange->Reply({.body = request.body});
    if (request.path == "/peer") return exchange->Reply({.body = std::string(exchange->peer())});
    if (request.path.starts_with("/page/")) {
      return exchange->Reply({.body = std::string(std::stoul(request.path.substr(6)), 'x')});
    }
    const std::lock_guard lock(mutex_);
    if (request.path == "/wait") exchange->OnHangUp([this] { HungUp(); });
    if (request.path == "/last") exchange->OnHangUp(ReplyToWhoHungUp(exchange));
    waiting_.push_back(std::move(exchange));
    changed_.notify_all();
  }
  void HungUp() {
    const std::lock_guard lock(hung_up_mutex_);
    ++hung_up_;
    heard_on_ = std::this_thread::get_id();
    changed_.notify_all();
  }
  std::function<void()> ReplyToWhoHungUp(const std::shared_ptr<HttpExchange>& exchange) {
    asked_on_ = std::this_thread::get_id();
    return [this, exchange] {
      exchange->Reply({.body = "for nobody"});
      HungUp();
    };
  }
  std::shared_ptr<HttpExchange> NextWaiting() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty(); });
    std::shared_ptr<HttpExchange> exchange = std::move(waiting_.back());
    waiting_.pop_back();
    return exchange;
  }
  void WaitForHangUp() {
    std::unique_lock lock(hung_up_mutex_);
    changed_.wait(lock, [&] { return hung_up_ > 0; });
  }
  // Of one request with Connection: close.
  std::string Ask(const std::string& request, const std::string& body = "") const {
    TcpConnection client(server_->address());
    client.Send(request + "Host: a\r\nConnection: close\r\n\r\n" + body);
    return client.ReceiveUntil("");
  }
  bool Live() const {
    const std::string reply = Ask("GET /live HTTP/1.1\r\n");
    return reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nlive\n");
  }
  int64_t Cut(HttpCut reason) const { return counts_.cut[static_cast<size_t>(reason)].load(); }
  void WaitForConnections(int64_t count) const {
    while (counts_.connections.load() != count) std::this_thread::yield();
  }

  std::mutex mutex_, hung_up_mutex_;
  std::condition_variable_any changed_;
  std::vector<std::shared_ptr<HttpExchange>> waiting_;
  int hung_up_ = 0;
  std::thread::id asked_on_, heard_on_;
  HttpCounts counts_;
  std::unique_ptr<HttpServer> server_;
};

constexpr const char* kEcho = "POST /echo HTTP/1.1\r\nHost: a\r\n";

TEST_F(HttpServerTest, AnswersRequestsOfOneConnectionInTheirOrder) {
  Start(Wide());
  TcpConnection client(server_->address());
  ASSERT_TRUE(
      client.Send(fmt::format("{}Content-Length: 3\r\n\r\none{}Content-Length: 3\r\n\r\ntwo"
                              "GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                              kEcho, kEcho)));
  const std::string all = client.ReceiveUntil("");
  const size_t one = all.find("one"), two = all.find("two"), live = all.find("live");
  ASSERT_NE(live, all.npos) << all;
  EXPECT_LT(one, two);
  EXPECT_LT(two, live);
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServerTest, BodiesComeWholeWhetherCountedOrInChunks) {
  Start(Wide());
  std::string big(300'000, 'a');
  for (size_t i = 0; i < big.size(); i += 7) big[i] = static_cast<char>(i);
  const std::string reply =
      Ask(fmt::format("POST /echo HTTP/1.1\r\nContent-Length: {}\r\n", big.size()), big);
  EXPECT_TRUE(reply.ends_with("\r\n\r\n" + big));
  const std::string chunked = Ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
                                  "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_TRUE(chunked.ends_with("\r\n\r\nabcdefg")) << chunked;
}

TEST_F(HttpServerTest, AClientThatAsksFirstIsToldToGoOn) {
  Start(Wide());
  TcpConnection client(server_->address());
  client.Send(fmt::format("{}Content-Length: 3\r\nExpect: 100-continue\r\n\r\n", kEcho));
  EXPECT_EQ(client.ReceiveUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("abc");
  EXPECT_TRUE(client.ReceiveUntil("abc").starts_with("HTTP/1.1 200 OK\r\n"));
}

// RFC 9112, 9.3: a client of HTTP/1.0 that is not told so reads on until the connection ends, which it does after 75 s.
TEST_F(HttpServerTest, AnOldClientIsToldThatItsConnectionStaysAndIsNeverToldToGoOn) {
  Start(Wide());
  TcpConnection client(server_->address());
  client.Send("GET /live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReceiveUntil("live\n"), HasSubstr("\r\nConnection: keep-alive\r\n"));
  client.Send(
      "POST /echo HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\nExpect: "
      "100-continue\r\n\r\nabc");
  EXPECT_THAT(client.ReceiveUntil("abc"), StartsWith("HTTP/1.1 200 "));
  client.Send("GET /live HTTP/1.0\r\n\r\n");
  EXPECT_THAT(client.ReceiveUntil(""), HasSubstr("\r\nConnection: close\r\n"));
}

TEST_F(HttpServerTest, AHeadIsAnsweredWithoutABody) {
  Start(Wide());
  const std::string reply = Ask("HEAD /page/77 HTTP/1.1\r\n");
  EXPECT_TRUE(reply.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(reply.find("Content-Length: 77\r\n"), reply.npos) << reply;
  EXPECT_TRUE(reply.ends_with("\r\n\r\n"));
}

// RFC 9112, 3.2.2: as a client of a proxy asks, and a proxy may pass it on.
TEST_F(HttpServerTest, ATargetMayBeAWholeAddress) {
  Start(Wide());
  for (const char* target : {"http://a/live", "HTTPS://a.example:8000/live?x=1"}) {
    EXPECT_THAT(Ask(fmt::format("GET {} HTTP/1.1\r\n", target)), testing::EndsWith("live\n"))
        << target;
  }
  EXPECT_THAT(Ask("GET http://a HTTP/1.1\r\n"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServerTest, WhatIsTooLongOrNoHttpIsRefusedByName) {
  HttpLimits limits = Wide();
  limits.max_header_bytes = 1000;
  limits.max_body_bytes = 1000;
  Start(limits);
  const auto status = [](const std::string& reply) { return reply.substr(0, 12); };
  const std::string long_head = Ask("GET /live HTTP/1.1\r\nX: " + std::string(1000, 'x') + "\r\n");
  EXPECT_EQ(status(long_head), "HTTP/1.1 431");
  EXPECT_NE(long_head.find("--http-max-header-bytes"), long_head.npos);
  EXPECT_EQ(status(Ask("POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n")), "HTTP/1.1 413");
  EXPECT_EQ(status(Ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n",
                       "3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n")),
            "HTTP/1.1 413");
  EXPECT_EQ(status(Ask("\x16\x03\x01 nonsense\r\n")), "HTTP/1.1 400");
  EXPECT_EQ(status(Ask("GET /live HTTP/1.1\r\nContent-Length: 3\r\n", "abc")), "HTTP/1.1 400");
  EXPECT_EQ(status(Ask("GET /none HTTP/1.1\r\n")), "HTTP/1.1 404");
  EXPECT_TRUE(Live());
}

TEST_F(HttpServerTest, ABodyWhoseEndNobodyKnowsIsNotReadAsTheNextRequest) {
  Start(Wide());
  for (const char* coding :
       {"gzip", "xchunked", "gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"}) {
    TcpConnection client(server_->address());
    client.Send(
        fmt::format("{}Transfer-Encoding: {}\r\n\r\n"
                    "GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                    kEcho, coding));
    const std::string reply = client.ReceiveUntil("");
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 400")) << coding << ": " << reply;
    EXPECT_NE(reply.find("Transfer-Encoding"), reply.npos) << coding << ": " << reply;
    EXPECT_EQ(reply.find("live\n"), reply.npos) << coding << ": " << reply;
  }
}

TEST_F(HttpServerTest, ChunksThatAreNoneAreRefusedAndNotHungUpOnInSilence) {
  Start(Wide());
  for (const char* chunk : {"zz\r\n", "FFFFFFFFFFFFFFFFF\r\n", "3\r\nabcdef\r\n"}) {
    const std::string reply = Ask("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", chunk);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 400")) << chunk << ": " << reply;
  }
}

TEST_F(HttpServerTest, EachThatTakesTooLongIsHungUpOn) {
  HttpLimits limits = Wide();
  const milliseconds soon(20);
  const struct {
    milliseconds HttpLimits::*bound;
    HttpCut reason;
    std::string sent;
  } cases[] = {
      {&HttpLimits::header_timeout, HttpCut::kHead, "GET /live HTTP/1.1\r\nHost"},
      {&HttpLimits::header_timeout, HttpCut::kHead, ""},
      {&HttpLimits::body_timeout, HttpCut::kBody,
       fmt::format("{}Content-Length: 9\r\n\r\nabc", kEcho)},
      {&HttpLimits::idle_timeout, HttpCut::kIdle, "GET /live HTTP/1.1\r\nHost: a\r\n\r\n"},
  };
  for (const auto& c : cases) {
    HttpLimits with = limits;
    with.*c.bound = soon;
    Start(with);
    TcpConnection client(server_->address());
    client.Send(c.sent);
    EXPECT_TRUE(client.ReceiveUntilClosed()) << c.sent;
    EXPECT_EQ(Cut(c.reason), 1) << c.sent;
  }
}

TEST_F(HttpServerTest, AClientThatNeverReadsItsReplyIsHungUpOn) {
  HttpLimits limits = Wide();
  limits.reply_timeout = milliseconds(50);
  Start(limits);
  const TcpConnection client(server_->address());
  client.Send("GET /page/67108864 HTTP/1.1\r\nHost: a\r\n\r\n");  // beyond what sockets buffer
  while (Cut(HttpCut::kUnread) == 0) std::this_thread::yield();
  WaitForConnections(0);
  EXPECT_EQ(counts_.held_bytes, 0);
}

TEST_F(HttpServerTest, OneMoreThanMayComeTakesThePlaceOfTheSlowest) {
  HttpLimits limits = Wide();
  limits.max_connections = 16;
  Start(limits);
  std::vector<std::unique_ptr<TcpConnection>> slow;
  for (int i = 0; i < 16; ++i) {
    slow.push_back(std::make_unique<TcpConnection>(server_->address()));
    slow.back()->Send("GET /live HT");
    WaitForConnections(i + 1);
  }
  EXPECT_TRUE(Live());
  EXPECT_TRUE(slow.front()->ReceiveUntilClosed());
  EXPECT_EQ(Cut(HttpCut::kConnections), 1);
}

TEST_F(HttpServerTest, HalfSentBodiesHoldNoMoreThanTheirBound) {
  HttpLimits limits = Wide();
  limits.max_held_bytes = 4 << 20;
  Start(limits);
  const std::string half(1 << 20, 'x');
  std::vector<std::unique_ptr<TcpConnection>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<TcpConnection>(server_->address()));
    slow.back()->Send(fmt::format("{}Content-Length: {}\r\n\r\n", kEcho, 2 * half.size()));
    slow.back()->Send(half);
  }
  while (Cut(HttpCut::kBytes) < 28) std::this_thread::yield();
  EXPECT_LE(counts_.held_bytes, limits.max_held_bytes);
  EXPECT_TRUE(slow.front()->ReceiveUntilClosed());
  const std::string reply =
      Ask(fmt::format("POST /echo HTTP/1.1\r\nContent-Length: {}\r\n", half.size()), half);
  EXPECT_TRUE(reply.ends_with(half));
}

TEST_F(HttpServerTest, TooManyToAnswerAreRefusedAndProbesAreNot) {
  HttpLimits limits = Wide();
  limits.max_connections = 16;
  Start(limits);
  const std::string wait = "POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
  std::vector<std::unique_ptr<TcpConnection>> clients;
  std::vector<std::shared_ptr<HttpExchange>> waiting;
  for (int i = 0; i < 15; ++i) {
    clients.push_back(std::make_unique<TcpConnection>(server_->address()));
    clients.back()->Send(wait);
    waiting.push_back(NextWaiting());
  }
  EXPECT_TRUE(Live());
  TcpConnection one_more(server_->address());
  one_more.Send(wait);
  const std::string refused = one_more.ReceiveUntil("\r\n\r\n");
  EXPECT_TRUE(refused.starts_with("HTTP/1.1 503")) << refused;
  EXPECT_NE(refused.find("Retry-After: 1\r\n"), refused.npos) << refused;
  for (const auto& exchange : waiting) exchange->Reply({.body = "done\n"});
  for (const auto& client : clients) {
    EXPECT_TRUE(client->ReceiveUntil("done").ends_with("\r\n\r\ndone\n"));
  }
}

TEST_F(HttpServerTest, WhoeverAnswersHearsThatTheClientHungUp) {
  Start(Wide());
  {
    const TcpConnection client(server_->address());
    client.Send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab");
    waiting_.push_back(NextWaiting());
  }
  WaitForHangUp();
  NextWaiting()->Reply({.body = "for nobody"});
  EXPECT_TRUE(Live());
}

// As a piece of a sequence does that has waited for its turn: the call ends there, and nothing of the loop's is held meanwhile.
TEST_F(HttpServerTest, WhoeverHearsThatTheClientHungUpMayReplyAndIsOnTheThreadThatWasAsked) {
  Start(Wide());
  {
    const TcpConnection client(server_->address());
    client.Send("POST /last HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    NextWaiting();
  }
  WaitForHangUp();
  EXPECT_EQ(heard_on_, asked_on_);
  EXPECT_TRUE(Live());
}

TEST_F(HttpServerTest, WhoeverAsksAfterTheClientHungUpHearsItAtOnceAndMayReply) {
  Start(Wide());
  std::shared_ptr<HttpExchange> exchange;
  {
    const TcpConnection client(server_->address());
    client.Send("POST /alone HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    exchange = NextWaiting();
  }
  WaitForConnections(0);
  EXPECT_TRUE(Live());  // so the loop is through with the one that has ended
  exchange->OnHangUp(ReplyToWhoHungUp(exchange));
  EXPECT_EQ(hung_up_, 1);
  EXPECT_EQ(heard_on_, std::this_thread::get_id());
}

TEST_F(HttpServerTest, AReplyOfAServerThatIsGoneGoesNowhere) {
  Start(Wide());
  const TcpConnection client(server_->address());
  client.Send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const std::shared_ptr<HttpExchange> exchange = NextWaiting();
  server_.reset();
  EXPECT_EQ(hung_up_, 1);
  exchange->Reply({.body = "for nobody"});
}

TEST_F(HttpServerTest, DrainingWaitsForRepliesAndHangsUpOnTheRest) {
  Start(Wide());
  TcpConnection idle(server_->address());
  auto asking = std::make_unique<TcpConnection>(server_->address());
  asking->Send("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
  const std::shared_ptr<HttpExchange> exchange = NextWaiting();
  server_->Drain(milliseconds(0));  // begins, and waits for nobody; who asks again waits on
  std::thread draining([&] { server_->Drain(hours(1)); });
  EXPECT_TRUE(idle.ReceiveUntilClosed());
  exchange->Reply({.body = "at last\n"});
  EXPECT_TRUE(asking->ReceiveUntil("").ends_with("\r\n\r\nat last\n"));
  asking.reset();  // its half of the connection was open yet, and the drain waits for that, too
  draining.join();
}

// The process of this test may open no more than it has open.
TEST_F(HttpServerTest, ProbesAreAnsweredThoughAllFilesAreTaken) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  Start(Wide());
  std::vector<std::unique_ptr<TcpConnection>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<TcpConnection>(server_->address()));
    WaitForConnections(i + 1);
  }
  // Who was answered knows that the server is done with accepting: trying to takes a file for a moment, too.
  EXPECT_TRUE(Live());
  WaitForConnections(4);
  const int next = dup(0);  // the lowest that is free
  close(next);
  // One for the client of each probe; what the server accepts comes out of its own.
  const rlimit tight{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(Live()) << i;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// As at gRPC's port and TLS's: who asks at several is one client. What a machine without IPv6 has must hold there, too.
TEST_F(HttpServerTest, AWildcardTakesBothFamiliesAndPeersAreSpelledAsGrpcSpellsThem) {
  struct Way {
    std::string listens, host, peer;
  };
  std::vector<Way> ways = {{"0.0.0.0:0", "127.0.0.1", "ipv4:127.0.0.1:"}};
  if (ListenOn("[::1]:0", milliseconds(0)).ok()) {
    ways.push_back({"0.0.0.0:0", "[::1]", "ipv6:%5B::1%5D:"});
    ways.push_back({"[::]:0", "127.0.0.1", "ipv4:127.0.0.1:"});
    ways.push_back({"[::1]:0", "[::1]", "ipv6:%5B::1%5D:"});
  }
  for (const Way& way : ways) {
    Start(Wide(), way.listens);
    const std::string address = server_->address();
    TcpConnection client(way.host + address.substr(address.rfind(':')));
    ASSERT_TRUE(client.connected()) << way.host << " to " << way.listens;
    client.Send("POST /peer HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(client.ReceiveUntil(""), HasSubstr("\r\n\r\n" + way.peer)) << way.listens;
  }
}

TEST(HttpServerStartTest, AnAddressThatCannotBeHadIsAnErrorThatNamesItsFlagAndWhy) {
  HttpCounts counts;
  const auto first = HttpServer::Start("http-address", "localhost:0", {}, {}, counts);
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE((*first)->address().starts_with("localhost:"));
  const auto second = HttpServer::Start("http-address", (*first)->address(), {}, {}, counts);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            fmt::format("--http-address {} cannot be bound: Address already in use",
                        (*first)->address()));
  const auto nowhere = HttpServer::Start("http-address", "192.0.2.1:0", {}, {}, counts);
  EXPECT_EQ(nowhere.status().message(),
            "--http-address 192.0.2.1:0 cannot be bound: Cannot assign requested address");
}

}  // namespace
}  // namespace cellbatch
