// A thousand clients of HTTP that take their time (issue 14): heads and bodies half sent, replies never read, connections
// kept without a request. Probes, scrapers and gRPC are answered while all of them hang; each bound is named.
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/e2e/tcp_connection.h"
#include "tests/fault/fault_test.h"

namespace cellbatch {
namespace {

constexpr int kOfEachKind = 250;
constexpr int kPagesNotRead = 300;  // some megabytes: beyond what sockets buffer

class SlowClients {
 public:
  explicit SlowClients(const std::string& address) {
    std::string pages;
    for (int i = 0; i < kPagesNotRead; ++i) pages += "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    const std::string sent[] = {
        "GET /v2/health/live HTTP/1.1\r\nHos",
        "POST /v2/models/words/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n{\"inp",
        pages,
        "GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n",
    };
    for (int i = 0; i < kOfEachKind; ++i) {
      for (const std::string& begun : sent) {
        clients_.push_back(std::make_unique<TcpConnection>(address));
        EXPECT_TRUE(clients_.back()->connected());
        EXPECT_TRUE(clients_.back()->Send(begun));
      }
    }
  }
  size_t size() const { return clients_.size(); }

 private:
  std::vector<std::unique_ptr<TcpConnection>> clients_;
};

class SlowHttpTest : public FaultTest {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(RaiseOwnFileLimit());
    // Nobody is hung up on for being slow: whoever is answered here is answered beside all of them.
    ASSERT_NO_FATAL_FAILURE(
        Serve(FaultRepository(), {"--http-header-timeout=1h", "--http-body-timeout=1h",
                                  "--http-reply-timeout=1h", "--http-idle-timeout=1h"}));
  }
};

TEST_F(SlowHttpTest, ProbesAreAnsweredWhileAThousandSlowClientsHang) {
  const SlowClients slow(server_->http());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(HttpGet(server_->http(), "/v2/health/live"), kLiveAnswer) << i;
    ASSERT_EQ(HttpGet(server_->http(), "/v2/health/ready"), kReadyAnswer) << i;
    ASSERT_EQ(HttpGet(server_->http(), "/v2/models/words/ready"), ModelReadyAnswer("words", true))
        << i;
  }
  EXPECT_GE(Metric(*server_, R"(cellbatch_http_connections{port="http"})"),
            static_cast<double>(slow.size()));
  ExpectGood(*caller_);
}

TEST_F(SlowHttpTest, ScrapesAreAnsweredWhileAThousandSlowClientsHang) {
  const SlowClients slow(server_->http()), of_metrics(server_->metrics());
  EXPECT_TRUE(HttpGet(server_->http(), "/metrics").starts_with("200 # HELP"));
  EXPECT_TRUE(HttpGet(server_->metrics(), "/metrics").starts_with("200 # HELP"));
  EXPECT_TRUE(HttpGet(server_->http(), "/").starts_with("200 <!doctype html>"));
}

// Fewer places than clients: those who have waited longest make room for those who come.
TEST(SlowHttpBoundTest, ProbesAreAnsweredWhenSlowClientsHaveTakenEveryPlace) {
  ASSERT_TRUE(RaiseOwnFileLimit());
  const auto server = ServerProcess::Serving(
      FaultRepository(), {"--http-max-connections=100", "--http-header-timeout=1h",
                          "--http-body-timeout=1h", "--http-reply-timeout=1h"});
  ASSERT_NE(server, nullptr);
  const SlowClients slow(server->http());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(HttpGet(server->http(), "/v2/health/live"), kLiveAnswer) << i;
    ASSERT_EQ(HttpGet(server->http(), "/v2/health/ready"), kReadyAnswer) << i;
  }
  const double cut =
      Metric(*server, R"(cellbatch_http_cut_total{port="http",reason="connections"})");
  EXPECT_GE(cut, static_cast<double>(slow.size()) - 100);
  EXPECT_LE(Metric(*server, R"(cellbatch_http_connections{port="http"})"), 100);
}

}  // namespace
}  // namespace cellbatch
