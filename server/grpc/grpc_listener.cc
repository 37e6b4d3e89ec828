#include "server/grpc/grpc_listener.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/grpc/cork.h"
#include "server/grpc/listening_socket.h"
#include "server/grpc/spare_thread.h"
#include "server/grpc/unwhole_look.h"
#include "server/grpc/wire_tap.h"
#include "server/http/descriptors.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at connections over which something came: what comes meanwhile is seen late.
constexpr std::chrono::milliseconds kBetweenLooks{20};
constexpr int kMostAtOnce = 64;  // accepted before the others are looked at again
constexpr int kLooksBetweenTimeouts = 10;
constexpr std::chrono::milliseconds kAcceptPause{100};  // when there was no file for another
constexpr std::chrono::milliseconds kHandOver{10};
constexpr std::chrono::minutes kBetweenLogs{1};
constexpr size_t kSpareDescriptors = 16;
constexpr size_t kMostToTake = 1024;

class Connection final : public ConnectionGuard::Entry {
 public:
  Connection(std::string peer, Descriptor ours, std::shared_ptr<WireTap> tap, int events,
             const PlainEnd& behind)
      : Connection(std::move(peer), CorkOf(ours.get(), behind), std::move(ours), std::move(tap),
                   events) {}
  // Closing alone would not do: the socket lives on as long as gRPC has it, and so would the event.
  ~Connection() override {
    epoll_ctl(events_, EPOLL_CTL_DEL, ours_.get(), nullptr);
    cork_->Remove();
  }
  // gRPC sees the end as if the peer had hung up, and lets go of its own descriptor. Who only makes room gets what was
  // said to it before.
  void Cut(GrpcCut reason) override {
    tap_->Cut(reason);
    if (reason == GrpcCut::kConnections || reason == GrpcCut::kDescriptors) {
      shutdown(ours_.get(), SHUT_RDWR);
    } else {
      HangUpAtOnce(ours_.get());
    }
  }
  bool EverCalled() const override { return tap_->called(); }
  const WireTap& tap() const { return *tap_; }

 private:
  static std::shared_ptr<Cork> CorkOf(int socket, const PlainEnd& behind) {
    auto cork = std::make_shared<Cork>(socket);
    cork->address = behind.address;
    cork->certificate = behind.certificate;
    return cork;
  }
  Connection(std::string peer, const std::shared_ptr<Cork>& cork, Descriptor&& ours,
             std::shared_ptr<WireTap>&& tap, int events)
      : Entry(std::move(peer), cork),
        tap_(std::move(tap)),
        cork_(cork),
        ours_(std::move(ours)),
        events_(events) {
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    event.data.ptr = this;
    epoll_ctl(events_, EPOLL_CTL_ADD, ours_.get(), &event);
  }

  const std::shared_ptr<WireTap> tap_;
  const std::shared_ptr<Cork> cork_;
  const Descriptor ours_;
  const int events_;
};

}  // namespace

class GrpcListener::Impl {
 public:
  Impl(const ListenerOptions& options, Descriptor listening, GrpcCounts& counts)
      : options_(options),
        listening_(std::move(listening)),
        address_(options.accepts
                     ? fmt::format("{}:{}", options.address.substr(0, options.address.rfind(':')),
                                   PortOf(listening_.get()))
                     : options.address),
        guard_(counts),
        totals_(std::make_shared<WireTotals>(options.frames)) {}
  ~Impl() {
    if (!thread_.joinable()) return;
    ending_.store(true);
    Wake();
    thread_.join();
    std::unique_lock lock(giving_mutex_);
    given_.wait(lock, [&] { return giving_ == 0; });
  }

  bool Prepare() {
    woken_ = Descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    events_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
    return (listening_.get() >= 0 || !options_.accepts) && woken_.get() >= 0 && events_.get() >= 0;
  }
  void Begin(std::function<void(int)> take) {
    take_ = std::move(take);
    thread_ = std::thread([this] { Run(); });
  }
  void Take(PlainEnd end) {
    {
      const std::lock_guard lock(to_take_mutex_);
      if (to_take_.size() >= kMostToTake) return;
      to_take_.push_back(std::move(end));
    }
    Wake();
  }
  void SayMostConnections() const {
    const int64_t most = MostConnections();
    if (most == options_.max_connections) return;
    spdlog::warn("{}", FewerConnections("grpc-address", most, options_.max_connections));
  }
  void StopAccepting() {
    const std::lock_guard lock(taking_);
    closed_.store(true);
    shutdown(listening_.get(), SHUT_RDWR);  // who waits to be accepted is refused
    Wake();
  }
  void SayGoodbye() { totals_->goodbyes.fetch_add(1); }
  bool accepting() const { return accepting_.load(); }
  const std::string& address() const { return address_; }
  const ConnectionGuard& guard() const { return guard_; }

 private:
  void Run();
  void Wake() const { eventfd_write(woken_.get(), 1); }
  // Sleeps until somebody connects, Wake, or it is time for a look.
  void Sleep() const;
  void AcceptAll();
  void TakeAll();
  // False: nobody waits, or there is no file.
  bool AcceptOne();
  void OnNoFile();
  void Watch(int accepted, const PlainEnd& behind);
  void Give(Descriptor connection);
  void Look();
  void OnGone(Connection& connection);
  void LookAtUnwhole();
  int64_t MostConnections() const {
    return MostGrpcConnections(options_.max_connections, /*relayed=*/!options_.accepts);
  }
  void Say(GrpcCut reason);
  // Of a connection that is cut for what came over it.
  void SayOf(const Connection& connection, GrpcCut reason, int64_t seen);
  // At most once in a while for each reason.
  bool MaySay(GrpcCut reason) { return MaySay(said_[static_cast<size_t>(reason)]); }
  static bool MaySay(Clock::time_point& said);
  void SayNoThread(int error);

  const ListenerOptions options_;
  std::mutex taking_;           // held while connections are taken
  const Descriptor listening_;  // none: all are taken
  std::mutex to_take_mutex_;
  std::deque<PlainEnd> to_take_;  // under it
  std::mutex giving_mutex_;
  std::condition_variable given_;
  int64_t giving_ = 0;  // under it: threads that bring gRPC a connection
  std::function<void(int)> take_;
  const std::string address_;
  Descriptor woken_, events_;
  ConnectionGuard guard_;
  const std::shared_ptr<WireTotals> totals_;
  int looks_ = 0;
  SpareDescriptors spare_{kSpareDescriptors};
  std::array<Clock::time_point, kNumGrpcCuts> said_ = {};
  Clock::time_point said_no_thread_;
  Clock::time_point pause_until_;
  std::atomic<bool> accepting_ = true, closed_ = false, ending_ = false;
  SpareThread spare_thread_;
  std::thread thread_;
};

void GrpcListener::Impl::Run() {
  while (!ending_.load()) {
    Sleep();
    options_.accepts ? AcceptAll() : TakeAll();
    Look();
  }
}

void GrpcListener::Impl::Sleep() const {
  const bool paused = closed_.load() || Clock::now() < pause_until_;
  std::array<pollfd, 2> waited = {
      pollfd{.fd = woken_.get(), .events = POLLIN, .revents = 0},
      // A negative one is passed over.
      pollfd{.fd = paused ? -1 : listening_.get(), .events = POLLIN, .revents = 0}};
  const bool idle = guard_.size() == 0 && accepting_.load();
  poll(waited.data(), waited.size(), idle ? -1 : static_cast<int>(kBetweenLooks.count()));
  eventfd_t ignored = 0;
  eventfd_read(woken_.get(), &ignored);
}

void GrpcListener::Impl::AcceptAll() {
  const std::lock_guard lock(taking_);
  for (int i = 0; i < kMostAtOnce && !closed_.load(); ++i) {
    if (Clock::now() < pause_until_ || !AcceptOne()) break;
  }
}

void GrpcListener::Impl::TakeAll() {
  const std::lock_guard lock(taking_);
  for (int i = 0; i < kMostAtOnce && !closed_.load(); ++i) {
    PlainEnd end;
    {
      const std::lock_guard queue(to_take_mutex_);
      if (to_take_.empty()) return;
      end = std::move(to_take_.front());
      to_take_.pop_front();
    }
    Watch(end.descriptor.Release(), end);
  }
  Wake();  // some may be left
}

bool GrpcListener::Impl::AcceptOne() {
  const int accepted = accept4(listening_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted >= 0) {
    accepting_.store(true);
    Watch(accepted, PlainEnd());
    return true;
  }
  if (errno == EMFILE || errno == ENFILE) {
    OnNoFile();
    return true;
  }
  // A client that was gone again is no reason to leave the others.
  return errno != EAGAIN && errno != EWOULDBLOCK && errno != EBADF && errno != EINVAL;
}

void GrpcListener::Impl::OnNoFile() {
  Say(GrpcCut::kDescriptors);
  if (spare_.Release() || guard_.CutOne(GrpcCut::kDescriptors)) return;
  accepting_.store(false);
  pause_until_ = Clock::now() + kAcceptPause;
}

void GrpcListener::Impl::Watch(int accepted, const PlainEnd& behind) {
  Descriptor gives(accepted);
  const std::string peer = behind.peer.empty() ? PeerOf(accepted) : behind.peer;
  if (peer.empty()) return;
  int ours = fcntl(accepted, F_DUPFD_CLOEXEC, 0);
  if (ours < 0 && spare_.Release()) ours = fcntl(accepted, F_DUPFD_CLOEXEC, 0);
  if (ours < 0) return;
  Descriptor watched(ours);
  std::shared_ptr<WireTap> tap = WireTap::Enrol(accepted, totals_);
  if (tap == nullptr) return;
  const auto connection =
      std::make_shared<Connection>(peer, std::move(watched), std::move(tap), events_.get(), behind);
  const int64_t most = MostConnections();
  if (guard_.size() >= most) Say(GrpcCut::kConnections);
  guard_.Add(connection, most);
  Give(std::move(gives));
  // A spare was used: somebody older makes up for it.
  if (!spare_.Refill()) guard_.CutOne(GrpcCut::kDescriptors, connection.get());
}

// gRPC reads a new connection's bytes on the thread that brought it for as long as they keep coming, so each is brought by a
// thread of its own: a flood holds up nobody for longer than kHandOver. Others are waited for, so that we accept no more than
// gRPC can take, and its descriptors of those that were cut are closed before there are too many. Where no thread can be made
// there is one kept back, and who comes while it is busy is hung up on.
void GrpcListener::Impl::Give(Descriptor connection) {
  struct Gift {
    Impl* from;
    int connection;
    std::shared_ptr<bool> given;
  };
  const auto given = std::make_shared<bool>(false);
  auto gift = std::make_unique<Gift>(Gift{this, connection.get(), given});
  const auto give = [](void* raw) -> void* {
    const std::unique_ptr<Gift> gift(static_cast<Gift*>(raw));
    gift->from->take_(gift->connection);
    const std::lock_guard lock(gift->from->giving_mutex_);
    *gift->given = true;
    --gift->from->giving_;
    gift->from->given_.notify_all();
    return nullptr;
  };
  std::unique_lock lock(giving_mutex_);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, give, gift.get());
  if (error == 0) {
    pthread_detach(thread);
  } else {
    SayNoThread(error);
    // Closing would not do: `ours` keeps the socket open.
    if (!spare_thread_.Run([give, raw = gift.get()] { give(raw); })) {
      shutdown(connection.get(), SHUT_RDWR);
      return;
    }
  }
  gift.release();
  connection.Release();
  ++giving_;
  given_.wait_for(lock, kHandOver, [&] { return *given; });
}

void GrpcListener::Impl::Look() {
  constexpr int kMost = 256;
  std::array<epoll_event, kMost> events;
  for (int n = kMost; n == kMost;) {
    n = epoll_wait(events_.get(), events.data(), kMost, 0);
    for (int i = 0; i < n; ++i) {
      auto& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
      // Both directions are closed: the peer has gone, and gRPC has let go.
      const bool gone = (events[static_cast<size_t>(i)].events & EPOLLHUP) != 0;
      gone ? OnGone(connection) : guard_.Moved(connection);
    }
  }
  LookAtUnwhole();
  spare_.Refill();
}

void GrpcListener::Impl::OnGone(Connection& connection) {
  const std::optional<GrpcCut> cut = connection.tap().cut();
  if (!cut) return guard_.Remove(connection);
  // By the thread that read what was too much.
  SayOf(connection, *cut, connection.tap().seen());
  guard_.Cut(connection, *cut);
}

void GrpcListener::Impl::LookAtUnwhole() {
  const int64_t bytes = totals_->bytes.load(), streams = totals_->streams.load();
  const bool beyond =
      bytes > options_.max_unfinished_bytes || streams > options_.frames.max_streams;
  if (++looks_ >= kLooksBetweenTimeouts) looks_ = 0;
  if (!beyond && (looks_ != 0 || streams + bytes == 0)) return;
  std::vector<Connection*> connections;
  std::vector<UnwholeSeen> all;
  guard_.ForEach([&](ConnectionGuard::Entry& entry) {
    auto& connection = static_cast<Connection&>(entry);
    const WireTap& tap = connection.tap();
    const Unwhole unwhole{.streams = tap.unwhole_streams(), .bytes = tap.unwhole_bytes()};
    if (unwhole == Unwhole()) return;
    connections.push_back(&connection);
    all.push_back({unwhole, tap.OldestBegun()});
  });
  const UnwholeBounds bounds{
      .max_streams = options_.frames.max_streams,
      .max_bytes = options_.max_unfinished_bytes,
      .message_timeout_ns = std::chrono::nanoseconds(options_.message_timeout).count()};
  while (const auto goes = WhoIsTooMuch(all, bounds, WireTap::NowNs())) {
    const auto at = static_cast<ptrdiff_t>(goes->which);
    SayOf(*connections[goes->which], goes->reason, goes->seen);
    guard_.Cut(*connections[goes->which], goes->reason);
    connections.erase(connections.begin() + at);
    all.erase(all.begin() + at);
  }
}

bool GrpcListener::Impl::MaySay(Clock::time_point& said) {
  const auto now = Clock::now();
  if (said != Clock::time_point() && now - said < kBetweenLogs) return false;
  said = now;
  return true;
}

void GrpcListener::Impl::SayNoThread(int error) {
  if (!MaySay(said_no_thread_)) return;
  spdlog::error(
      "--grpc-address: no thread can be started for a new connection: {}; one that is kept back "
      "serves one after the other",
      std::strerror(error));
}

void GrpcListener::Impl::SayOf(const Connection& connection, GrpcCut reason, int64_t seen) {
  if (!MaySay(reason)) return;
  const auto say = [&](const char* flag, int64_t bound, const std::string& what) {
    spdlog::warn("--{}={}: {}; {} is hung up on", flag, bound, what, connection.address());
  };
  const FrameBounds& frames = options_.frames;
  switch (reason) {
    case GrpcCut::kStreams:
      say("grpc-max-streams", frames.max_streams,
          fmt::format("{} streams were opened before our settings were acknowledged, or have "
                      "brought no message",
                      seen));
      return;
    case GrpcCut::kHeaderBlock:
      say("grpc-max-header-block-bytes", frames.max_header_block_bytes,
          fmt::format("a header block has {} bytes, or too many frames for them", seen));
      return;
    case GrpcCut::kResets:
      say("grpc-max-resets-per-second", frames.max_resets_per_second,
          fmt::format("{} more streams than that were opened and reset", seen));
      return;
    case GrpcCut::kUnfinishedBytes:
      say("grpc-max-unfinished-bytes", options_.max_unfinished_bytes,
          fmt::format("messages that are not whole keep {} bytes", seen));
      return;
    case GrpcCut::kMessageTimeout:
      say("grpc-message-timeout", options_.message_timeout.count(),
          fmt::format("a message has not come whole in {} ms", seen / 1'000'000));
      return;
    default:
      return;
  }
}

void GrpcListener::Impl::Say(GrpcCut reason) {
  if (!MaySay(reason)) return;
  if (reason == GrpcCut::kDescriptors) {
    spdlog::error(
        "--grpc-address: all {} files that the process may open are open, {} of them for {} "
        "connections here: of these the longest idle make room",
        DescriptorLimit(), kFilesOfGrpc * guard_.size(), guard_.size());
    return;
  }
  spdlog::warn(
      "--grpc-max-connections={}, and {} files may be open: {} connections are there, and the "
      "longest idle make room for new ones",
      options_.max_connections, DescriptorLimit(), guard_.size());
}

GrpcListener::GrpcListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcListener::~GrpcListener() = default;

absl::StatusOr<std::unique_ptr<GrpcListener>> GrpcListener::Open(const ListenerOptions& options,
                                                                 GrpcCounts& counts) {
  const auto refused = [&](std::string_view why) {
    return absl::UnavailableError(
        fmt::format("--grpc-address {} cannot be bound: {}", options.address, why));
  };
  Descriptor listening;
  if (options.accepts) {
    absl::StatusOr<Descriptor> bound = ListenOn(options.address, options.user_timeout);
    if (!bound.ok())
      return refused({bound.status().message().data(), bound.status().message().size()});
    listening = *std::move(bound);
  }
  auto impl = std::make_unique<Impl>(options, std::move(listening), counts);
  if (!impl->Prepare()) return refused(std::generic_category().message(errno));
  impl->SayMostConnections();
  return std::unique_ptr<GrpcListener>(new GrpcListener(std::move(impl)));
}

void GrpcListener::Begin(std::function<void(int)> take) { impl_->Begin(std::move(take)); }
void GrpcListener::Take(PlainEnd end) { impl_->Take(std::move(end)); }
void GrpcListener::StopAccepting() { impl_->StopAccepting(); }
void GrpcListener::SayGoodbye() { impl_->SayGoodbye(); }
bool GrpcListener::accepting() const { return impl_->accepting(); }
const std::string& GrpcListener::address() const { return impl_->address(); }
const ConnectionGuard& GrpcListener::guard() const { return impl_->guard(); }

}  // namespace cellbatch
