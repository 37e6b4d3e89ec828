#include "server/http/http_server.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/grpc/listening_socket.h"
#include "server/http/descriptors.h"
#include "server/http/http_connection.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

constexpr size_t kPageThreads =
    2;  // one may make a page that takes long, of which there is one at a time
constexpr size_t kSpareDescriptors = 16;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::minutes kBetweenLogs{1};

HttpLimits WithinDescriptors(HttpLimits limits, std::string_view flag, bool behind) {
  const int64_t asked = limits.max_connections;
  limits.max_connections = MostHttpConnections(asked, behind);
  if (limits.max_connections < asked) {
    spdlog::warn("{}", FewerConnections(flag, limits.max_connections, asked));
  }
  return limits;
}

tcp FamilyOf(const Descriptor& listening) {
  int family = AF_INET;
  socklen_t size = sizeof(family);
  getsockopt(listening.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  return family == AF_INET6 ? tcp::v6() : tcp::v4();
}

}  // namespace

struct HttpServer::Impl {
  Impl(std::string_view the_flag, const HttpLimits& limits, HttpSite site, HttpCounts& counts)
      : flag(the_flag),
        table(limits.max_connections, limits.max_held_bytes, counts),
        host(std::make_shared<HttpHost>(HttpHost{
            .limits = limits,
            .site = std::move(site),
            .loop = loop,
            .table = table,
            .run = [this](HttpWhere where, int thread,
                          std::function<void()> work) { Run(where, thread, std::move(work)); },
            .ended = [this] { Ended(); }})),
        pages(kPageThreads) {
    for (int i = 0; i < limits.infer_threads; ++i) {
      infers.push_back(std::make_unique<asio::thread_pool>(1));
    }
  }
  ~Impl();

  absl::Status Listen(const std::string& address);
  void Begin();
  void Accept();
  void OnAccept(const Error& error, tcp::socket socket);
  void Take(HttpConnection::Socket socket, const PlainEnd& behind);
  void OnAcceptFailed(const Error& error);
  void Run(HttpWhere where, int thread, std::function<void()> work);
  void Ended();
  void StopTaking();
  // Replies that are still owed or on their way. Loop.
  bool Quiet() const {
    return table.count(HttpStage::kAnswer) == 0 && table.count(HttpStage::kReply) == 0;
  }

  const std::string flag;
  asio::io_context loop{1};
  asio::executor_work_guard<asio::io_context::executor_type> keeps_running{loop.get_executor()};
  tcp::acceptor acceptor{loop};
  asio::steady_timer pause{loop};
  ConnectionTable table;
  std::shared_ptr<HttpHost> host;
  SpareDescriptors spare{kSpareDescriptors};
  std::chrono::steady_clock::time_point logged = std::chrono::steady_clock::now() - kBetweenLogs;
  uint64_t accepted = 0;
  asio::thread_pool pages;
  std::vector<std::unique_ptr<asio::thread_pool>> infers;
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  bool quiet = false;  // under the mutex: Drain may go on
};

absl::Status HttpServer::Impl::Listen(const std::string& address) {
  // Who takes nothing has reply_timeout, not one of the system's.
  absl::StatusOr<Descriptor> listening = ListenOn(address, std::chrono::milliseconds(0));
  Error error;
  if (listening.ok()) acceptor.assign(FamilyOf(*listening), listening->get(), error);
  if (listening.ok() && !error) {
    listening->Release();
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      fmt::format("--{} {} cannot be bound: {}", flag, address,
                  listening.ok() ? error.message() : std::string(listening.status().message())));
}

void HttpServer::Impl::Begin() {
  if (acceptor.is_open()) asio::post(loop, [this] { Accept(); });
  thread = std::thread([this] { loop.run(); });
}

void HttpServer::Impl::Accept() {
  acceptor.async_accept(
      [this](const Error& error, tcp::socket socket) { OnAccept(error, std::move(socket)); });
}

void HttpServer::Impl::OnAccept(const Error& error, tcp::socket socket) {
  if (!acceptor.is_open()) return;
  if (error) return OnAcceptFailed(error);
  Take(std::move(socket), PlainEnd());
  Accept();
}

void HttpServer::Impl::Take(HttpConnection::Socket socket, const PlainEnd& behind) {
  const int infer_thread = static_cast<int>(accepted++ % std::max<size_t>(1, infers.size()));
  const auto connection =
      std::make_shared<HttpConnection>(host, std::move(socket), infer_thread, behind);
  if (table.Add(connection)) connection->Start();
  // A spare was used: somebody older makes up for it.
  if (!spare.Refill()) table.CutOne(HttpCut::kDescriptors, connection.get());
}

void HttpServer::Impl::OnAcceptFailed(const Error& error) {
  const bool no_files = error == asio::error::no_descriptors ||
                        error == Error(ENFILE, boost::system::system_category());
  if (!no_files) return Accept();  // a client that was gone again
  const auto now = std::chrono::steady_clock::now();
  if (now - logged >= kBetweenLogs) {
    logged = now;
    spdlog::error(
        "--{}: all {} files that the process may open are open, {} of them connections here: the "
        "oldest of these make room",
        flag, DescriptorLimit(), table.size());
  }
  if (spare.Release() || table.CutOne(HttpCut::kDescriptors)) return Accept();
  pause.expires_after(kAcceptPause);
  pause.async_wait([this](const Error& stopped) {
    if (!stopped && acceptor.is_open()) Accept();
  });
}

void HttpServer::Impl::Run(HttpWhere where, int infer_thread, std::function<void()> work) {
  asio::thread_pool& pool =
      where == HttpWhere::kInfer ? *infers[static_cast<size_t>(infer_thread)] : pages;
  asio::post(pool, std::move(work));
}

void HttpServer::Impl::Ended() {
  spare.Refill();
  if (!host->draining || !Quiet()) return;
  const std::lock_guard lock(mutex);
  quiet = true;
  changed.notify_all();
}

void HttpServer::Impl::StopTaking() {
  Error ignored;
  acceptor.close(ignored);
  pause.cancel();
  host->draining = true;
  table.ForEach([](ConnectionTable::Entry& entry) {
    const bool owed = entry.stage() == HttpStage::kAnswer || entry.stage() == HttpStage::kReply;
    if (!owed) static_cast<HttpConnection&>(entry).Close();
  });
}

HttpServer::Impl::~Impl() {
  asio::post(loop, [this] {
    StopTaking();
    table.ForEach(
        [](ConnectionTable::Entry& entry) { static_cast<HttpConnection&>(entry).Close(); });
  });
  keeps_running.reset();
  if (thread.joinable()) thread.join();
  pages.join();
  for (const auto& infer : infers) infer->join();
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl, std::string address)
    : impl_(std::move(impl)), address_(std::move(address)) {}

HttpServer::~HttpServer() = default;

void HttpServer::Drain(std::chrono::milliseconds grace) {
  Impl& impl = *impl_;
  asio::post(impl.loop, [&impl] {
    impl.StopTaking();
    impl.Ended();
  });
  std::unique_lock lock(impl.mutex);
  impl.changed.wait_for(lock, grace, [&] { return impl.quiet; });
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(std::string_view flag,
                                                              const std::string& address,
                                                              const HttpLimits& limits,
                                                              HttpSite site, HttpCounts& counts) {
  auto impl =
      std::make_unique<Impl>(flag, WithinDescriptors(limits, flag, false), std::move(site), counts);
  absl::Status status = impl->Listen(address);
  if (!status.ok()) return status;
  const int port = impl->acceptor.local_endpoint().port();
  impl->Begin();
  return std::unique_ptr<HttpServer>(new HttpServer(
      std::move(impl), fmt::format("{}:{}", address.substr(0, address.rfind(':')), port)));
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::StartBehind(std::string_view flag,
                                                                    const std::string& address,
                                                                    const HttpLimits& limits,
                                                                    HttpSite site,
                                                                    HttpCounts& counts) {
  auto impl =
      std::make_unique<Impl>(flag, WithinDescriptors(limits, flag, true), std::move(site), counts);
  impl->Begin();
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl), address));
}

// Before its thread was told of the end, or after: nothing is taken then.
void HttpServer::Take(PlainEnd end) {
  asio::post(impl_->loop, [&impl = *impl_, end = std::make_shared<PlainEnd>(std::move(end))] {
    if (impl.host->draining) return;
    HttpConnection::Socket socket(impl.loop);
    Error error;
    socket.assign(asio::generic::stream_protocol(AF_UNIX, 0), end->descriptor.get(), error);
    if (error) return;
    end->descriptor.Release();
    impl.Take(std::move(socket), *end);
  });
}

}  // namespace cellbatch
