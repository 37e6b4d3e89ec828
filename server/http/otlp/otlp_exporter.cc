#include "server/http/otlp/otlp_exporter.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <iterator>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "fmt/format.h"
#include "server/http/otlp/otlp_codec.h"
#include "server/requests/client_text.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Error = beast::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr size_t kAtOnce = 512;
constexpr milliseconds kLinger{500};        // for others to come
constexpr milliseconds kPatience{2000};     // to connect, and to send
constexpr milliseconds kForAReply{10'000};  // as OpenTelemetry's exporters wait
constexpr milliseconds kFarewell{2000};     // for all that waits, at the end: docker stop has ten
constexpr milliseconds kGlance{100};        // how often it is seen that it is to go
constexpr milliseconds kFirstPause{500}, kLongestPause{30'000};
constexpr std::chrono::minutes kBetweenLines{1};
constexpr uint64_t kMostReply = 64 << 10;

struct Endpoint {
  std::string host;
  uint16_t port = 4318;
  std::string path = "/v1/traces";
  // As a Host header has it: an address of IPv6 in brackets.
  std::string Authority() const {
    return fmt::format("{}:{}", host.find(':') == host.npos ? host : "[" + host + "]", port);
  }
};

absl::StatusOr<Endpoint> ParseUrl(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        fmt::format("--trace-otlp={}: expected http://HOST[:PORT]/PATH, such as "
                    "http://127.0.0.1:4318/v1/traces",
                    std::string(url)));
  };
  if (!url.starts_with(kScheme)) return wrong();
  const std::string_view rest = url.substr(kScheme.size());
  const size_t slash = rest.find('/');
  std::string_view authority = rest.substr(0, slash);
  Endpoint endpoint;
  if (slash != rest.npos) endpoint.path = std::string(rest.substr(slash));
  const size_t colon = authority.rfind(':');
  const bool in_brackets = authority.ends_with(']');
  if (colon != authority.npos && !in_brackets) {
    const std::string_view port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
    const char* const last = port.data() + port.size();
    const auto [end, error] = std::from_chars(port.data(), last, endpoint.port);
    if (error != std::errc() || end != last || endpoint.port < 1) return wrong();
  }
  if (authority.starts_with('[') && authority.ends_with(']')) {
    authority = authority.substr(1, authority.size() - 2);
  }
  const auto bad = [](char c) { return c <= ' ' || c == '@' || c == '?' || c >= 0x7f; };
  if (authority.empty() || std::any_of(authority.begin(), authority.end(), bad) ||
      std::any_of(endpoint.path.begin(), endpoint.path.end(),
                  [](char c) { return c <= ' ' || c >= 0x7f; })) {
    return wrong();
  }
  endpoint.host = std::string(authority);
  return endpoint;
}

using Addresses = absl::StatusOr<std::vector<std::string>>;

Addresses AskSystem(const std::string& host) {
  asio::io_context loop;
  Error error;
  const auto found = asio::ip::tcp::resolver(loop).resolve(host, "", error);
  if (error) return absl::UnavailableError(error.message());
  std::vector<std::string> addresses;
  for (const auto& one : found) addresses.push_back(one.endpoint().address().to_string());
  return addresses;
}

// Of one POST. kAgain: the collector is not there, or asks for patience.
enum class Posted : uint8_t { kYes, kAgain, kRefused };

// A connection that is kept from one POST to the next. One thread, but for Leave and TooLate.
class Collector {
 public:
  Collector(Endpoint endpoint, ResolveHost resolve)
      : endpoint_(std::move(endpoint)), resolve_(std::move(resolve)) {}

  // `why`: of what is not kYes.
  Posted Post(const std::string& body, std::string& why) {
    const bool kept = stream_.has_value();
    Posted posted = Try(body, why);
    // The collector may have hung up on a connection that was idle.
    const bool again = posted == Posted::kAgain && kept && !stream_.has_value();
    return again && !TooLate() ? Try(body, why) : posted;
  }

  // From then on nothing is waited for.
  void Leave(Clock::time_point at) {
    leave_at_.store(at.time_since_epoch().count(), std::memory_order_relaxed);
  }
  bool TooLate() const {
    return Clock::now().time_since_epoch().count() >= leave_at_.load(std::memory_order_relaxed);
  }

 private:
  template <typename Start>
  Error Await(milliseconds patience, Start start) {
    Error result = asio::error::operation_aborted;
    stream_->expires_after(patience);
    start([&result](Error error, auto...) { result = error; });
    loop_.restart();
    while (!loop_.stopped()) {
      loop_.run_for(kGlance);
      if (TooLate()) stream_->close();
    }
    return result;
  }
  // The thread that asks has all that it uses, and what it says when it is too late nobody hears.
  Addresses Resolve() const {
    Error error;
    asio::ip::make_address(endpoint_.host, error);
    if (!error) return std::vector<std::string>{endpoint_.host};
    std::packaged_task<Addresses()> ask(
        [resolve = resolve_, host = endpoint_.host] { return resolve(host); });
    std::future<Addresses> answer = ask.get_future();
    try {
      std::thread(std::move(ask)).detach();
    } catch (const std::system_error& none) {
      return absl::UnavailableError(
          fmt::format("no thread to resolve {} on: {}", endpoint_.host, none.what()));
    }
    while (answer.wait_for(kGlance) != std::future_status::ready) {
      if (TooLate()) return absl::UnavailableError(endpoint_.host + " is not resolved yet");
    }
    return answer.get();
  }
  absl::Status Connect() {
    const Addresses addresses = Resolve();
    if (!addresses.ok()) return addresses.status();
    Error error;
    std::vector<asio::ip::tcp::endpoint> found;
    for (const std::string& address : *addresses) {
      found.emplace_back(asio::ip::make_address(address, error), endpoint_.port);
      if (error) return absl::UnavailableError(fmt::format("{}: {}", address, error.message()));
    }
    stream_.emplace(loop_);
    error = Await(kPatience, [&](auto done) { stream_->async_connect(found, done); });
    return error ? absl::UnavailableError(error.message()) : absl::OkStatus();
  }
  Posted Try(const std::string& body, std::string& why) {
    if (const auto connected = stream_.has_value() ? absl::OkStatus() : Connect();
        !connected.ok()) {
      why = std::string(connected.message());
      stream_.reset();
      return Posted::kAgain;
    }
    http::request<http::string_body> request(http::verb::post, endpoint_.path, 11, body);
    request.set(http::field::host, endpoint_.Authority());
    request.set(http::field::user_agent, "cellbatch");
    request.set(http::field::content_type, "application/x-protobuf");
    request.prepare_payload();
    Error error = Await(kPatience, [&](auto done) { http::async_write(*stream_, request, done); });
    http::response_parser<http::string_body> reply;
    if (!error) {
      reply.body_limit(kMostReply);
      beast::flat_buffer buffer;
      error =
          Await(kForAReply, [&](auto done) { http::async_read(*stream_, buffer, reply, done); });
    }
    if (error && !reply.is_header_done()) {
      why = error.message();
      stream_.reset();
      return Posted::kAgain;
    }
    // A reply that breaks off, or has a page behind its status, has said what became of the spans.
    if (error || !reply.keep_alive()) stream_.reset();
    const unsigned status = reply.get().result_int();
    if (status / 100 == 2) return Posted::kYes;
    why = fmt::format("status {}: {}", status, Quoted(reply.get().body()));
    const bool patience = status == 429 || (status >= 502 && status <= 504);
    return patience ? Posted::kAgain : Posted::kRefused;
  }

  const Endpoint endpoint_;
  const ResolveHost resolve_;
  asio::io_context loop_;
  std::optional<beast::tcp_stream> stream_;
  std::atomic<Clock::rep> leave_at_ = Clock::time_point::max().time_since_epoch().count();
};

}  // namespace

class OtlpExporter::Impl {
 public:
  Impl(OtlpOptions options, Endpoint endpoint)
      : options_(std::move(options)),
        collector_(std::move(endpoint), options_.resolve ? options_.resolve : AskSystem),
        thread_([this] { Loop(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    collector_.Leave(Clock::now() + kFarewell);
    changed_.notify_one();
    thread_.join();
  }

  void Take(std::vector<Span> spans) {
    const auto count = static_cast<int64_t>(spans.size());
    {
      const std::lock_guard lock(mutex_);
      if (static_cast<int64_t>(waiting_.size()) + count <= options_.max_spans) {
        const bool wake = waiting_.empty() || waiting_.size() + spans.size() >= kAtOnce;
        std::move(spans.begin(), spans.end(), std::back_inserter(waiting_));
        if (wake) changed_.notify_one();
        return;
      }
    }
    dropped_.fetch_add(count, std::memory_order_relaxed);
  }

  int64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  const std::string& url() const { return options_.url; }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
      changed_.wait_for(lock, kLinger, [this] { return stop_ || waiting_.size() >= kAtOnce; });
      if (waiting_.empty()) return;  // and it is to stop
      if (collector_.TooLate()) break;
      const size_t count = std::min(kAtOnce, waiting_.size());
      const auto end = waiting_.begin() + static_cast<ptrdiff_t>(count);
      std::vector<Span> batch(std::make_move_iterator(waiting_.begin()),
                              std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
      lock.unlock();
      Send(EncodeOtlp(batch, options_.resource), static_cast<int64_t>(count));
      lock.lock();
    }
    dropped_.fetch_add(static_cast<int64_t>(waiting_.size()), std::memory_order_relaxed);
  }

  void Send(const std::string& body, int64_t count) {
    std::string why;
    for (milliseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
      const Posted posted = collector_.Post(body, why);
      if (posted == Posted::kYes) {
        sent_.fetch_add(count, std::memory_order_relaxed);
        return;
      }
      Complain(why);
      std::unique_lock lock(mutex_);
      const bool over = changed_.wait_for(lock, posted == Posted::kAgain ? pause : milliseconds(0),
                                          [this] { return stop_; });
      if (over || posted == Posted::kRefused) break;
    }
    dropped_.fetch_add(count, std::memory_order_relaxed);
  }

  void Complain(const std::string& why) {
    const auto now = Clock::now();
    if (last_line_ && now - *last_line_ < kBetweenLines) return;
    last_line_ = now;
    spdlog::warn("traces do not reach {}: {}; {} spans were dropped so far", options_.url, why,
                 dropped());
  }

  const OtlpOptions options_;
  Collector collector_;  // the thread's, but for when it is to leave
  std::optional<Clock::time_point> last_line_;
  std::atomic<int64_t> sent_ = 0, dropped_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Span> waiting_;
  bool stop_ = false;
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<OtlpExporter>> OtlpExporter::Open(OtlpOptions options) {
  auto endpoint = ParseUrl(options.url);
  if (!endpoint.ok()) return endpoint.status();
  return std::unique_ptr<OtlpExporter>(
      new OtlpExporter(std::make_unique<Impl>(std::move(options), *std::move(endpoint))));
}

OtlpExporter::OtlpExporter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OtlpExporter::~OtlpExporter() = default;
void OtlpExporter::Take(std::vector<Span> spans) { impl_->Take(std::move(spans)); }
int64_t OtlpExporter::sent() const { return impl_->sent(); }
int64_t OtlpExporter::dropped() const { return impl_->dropped(); }
const std::string& OtlpExporter::url() const { return impl_->url(); }

}  // namespace cellbatch
