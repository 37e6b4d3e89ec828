// Collectors that are slow, hang, or answer oddly. What a well-behaved one is sent: tests/e2e/traces_test.
#include "server/http/otlp/otlp_exporter.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace cellbatch {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

// Answers each request with these bytes, so much later, and hangs up. Requests come one after the other.
class OddCollector {
 public:
  OddCollector(std::string reply, std::chrono::milliseconds wait)
      : reply_(std::move(reply)), wait_(wait), thread_([this] { Serve(); }) {}
  ~OddCollector() {
    stop_ = true;
    boost::system::error_code ignored;
    tcp::socket(loop_).connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port()) + "/v1/traces"; }
  int port() const { return acceptor_.local_endpoint().port(); }
  int requests() const { return requests_; }

 private:
  void Serve() {
    while (true) {
      boost::system::error_code ignored;
      tcp::socket socket = acceptor_.accept();
      if (stop_) return;
      std::string bytes;
      asio::read_until(socket, asio::dynamic_buffer(bytes), "\r\n\r\n", ignored);
      ++requests_;
      for (const auto until = Clock::now() + wait_; !stop_ && Clock::now() < until;) {
        std::this_thread::sleep_for(10ms);
      }
      asio::write(socket, asio::buffer(reply_), ignored);
      // To the end of what comes, so that hanging up does not take the reply back.
      socket.shutdown(tcp::socket::shutdown_send, ignored);
      char rest[4096];
      while (socket.read_some(asio::buffer(rest), ignored) > 0) {
      }
    }
  }

  const std::string reply_;
  const std::chrono::milliseconds wait_;
  asio::io_context loop_;
  tcp::acceptor acceptor_{loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::atomic<int> requests_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

std::unique_ptr<OtlpExporter> To(const OddCollector& collector) {
  auto exporter = OtlpExporter::Open({.url = collector.url(), .resource = {}});
  EXPECT_TRUE(exporter.ok()) << exporter.status();
  return *std::move(exporter);
}

// Until that many are sent or dropped, or it has taken too long.
void WaitForEnd(const OtlpExporter& exporter, int64_t spans) {
  const auto until = Clock::now() + 20s;
  while (exporter.sent() + exporter.dropped() < spans && Clock::now() < until) {
    std::this_thread::sleep_for(10ms);
  }
}

TEST(OtlpExporterTest, ACollectorThatTakesSecondsToAnswerIsSentSpansOnce) {
  const OddCollector collector("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 3s);
  const auto exporter = To(collector);
  exporter->Take(std::vector<Span>(7));
  WaitForEnd(*exporter, 7);
  EXPECT_EQ(exporter->sent(), 7);
  EXPECT_EQ(collector.requests(), 1);
}

TEST(OtlpExporterTest, AStatusCountsWhateverBecomesOfThePageBehindIt) {
  const std::string page(100'000, 'x');
  const OddCollector takes("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbreaks off", 0s);
  const OddCollector other("HTTP/1.1 404 Not Found\r\nContent-Length: 100000\r\n\r\n" + page, 0s);
  for (const OddCollector* collector : {&takes, &other}) {
    const auto exporter = To(*collector);
    exporter->Take(std::vector<Span>(7));
    WaitForEnd(*exporter, 7);
    EXPECT_EQ(exporter->sent(), collector == &takes ? 7 : 0);
    EXPECT_EQ(exporter->dropped(), collector == &takes ? 0 : 7);
    EXPECT_EQ(collector->requests(), 1);
  }
}

TEST(OtlpExporterTest, ACollectorThatAsksForPatienceIsSentSpansAgain) {
  for (const char* status : {"429 Too Many Requests", "504 Gateway Timeout"}) {
    const OddCollector collector(
        std::string("HTTP/1.1 ") + status + "\r\nContent-Length: 0\r\n\r\n", 0s);
    const auto exporter = To(collector);
    exporter->Take(std::vector<Span>(7));
    const auto until = Clock::now() + 20s;
    while (collector.requests() < 2 && Clock::now() < until) std::this_thread::sleep_for(10ms);
    EXPECT_GE(collector.requests(), 2) << status;
    EXPECT_EQ(exporter->sent() + exporter->dropped(), 0) << status;
  }
}

TEST(OtlpExporterTest, PortsEndAt65535) {
  EXPECT_TRUE(OtlpExporter::Open({.url = "http://localhost:65535/v1/traces", .resource = {}}).ok());
  for (const char* port : {"0", "65536", "x", ""}) {
    const std::string url = std::string("http://localhost:") + port + "/v1/traces";
    EXPECT_FALSE(OtlpExporter::Open({.url = url, .resource = {}}).ok()) << url;
  }
}

TEST(OtlpExporterTest, AHostWhoseNameIsKnownLaterIsSentSpansThen) {
  const OddCollector collector("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0s);
  const auto asked = std::make_shared<std::atomic<int>>(0);
  auto exporter = OtlpExporter::Open(
      {.url = "http://collector:" + std::to_string(collector.port()) + "/v1/traces",
       .resource = {},
       .resolve = [asked](const std::string& host) -> absl::StatusOr<std::vector<std::string>> {
         EXPECT_EQ(host, "collector");
         if (++*asked == 1) return absl::UnavailableError("no such host");
         return std::vector<std::string>{"127.0.0.1"};
       }});
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  (*exporter)->Take(std::vector<Span>(7));
  WaitForEnd(**exporter, 7);
  EXPECT_EQ((*exporter)->sent(), 7);
  EXPECT_EQ(*asked, 2);
}

// Here the resolver answers only when the exporter has gone: if that waited for it neither would end.
TEST(OtlpExporterTest, WhoGoesDoesNotWaitForANameThatNoServerAnswersFor) {
  const auto asked = std::make_shared<std::promise<void>>();
  std::promise<void> gone;
  auto exporter = OtlpExporter::Open(
      {.url = "http://collector:4318/v1/traces",
       .resource = {},
       .resolve = [asked, until = gone.get_future().share()](
                      const std::string&) -> absl::StatusOr<std::vector<std::string>> {
         asked->set_value();
         until.wait();
         return absl::UnavailableError("no name server answered");
       }});
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  (*exporter)->Take(std::vector<Span>(7));
  asked->get_future().wait();
  exporter->reset();
  gone.set_value();
}

// A server that is told to stop goes, however many spans wait for a collector that does not answer.
TEST(OtlpExporterTest, WhoGoesWaitsSecondsForACollectorThatHangsNotSecondsForEachBatch) {
  const OddCollector collector("", 10min);
  auto exporter = To(collector);
  exporter->Take(std::vector<Span>(8000));
  std::this_thread::sleep_for(200ms);
  const auto begin = Clock::now();
  exporter.reset();
  EXPECT_LT(Clock::now() - begin, 16s) << "two seconds, and 16 batches wait";
}

}  // namespace
}  // namespace cellbatch
