#include "server/tls/tls_front.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/http/descriptors.h"
#include "server/tls/plain_pair.h"
#include "server/tls/tls_relay.h"
#include "server/tls/tls_session.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostAtOnce = 64;  // accepted at a port before others have their turn
constexpr size_t kSpareDescriptors = 16;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kBetweenLooks{100};  // for handshakes that take too long
constexpr std::chrono::minutes kBetweenLogs{1};

// What an event is of.
struct Watched {
  enum class Kind : uint8_t { kWake, kPort, kHandshake };
  explicit Watched(Kind the_kind) : kind(the_kind) {}
  const Kind kind;
};

struct Port : Watched {
  Port(std::string_view the_flag, Descriptor the_listening, std::string_view protocol,
       TakePlainEnd the_take)
      : Watched(Kind::kPort),
        flag(the_flag),
        listening(std::move(the_listening)),
        protocols(static_cast<char>(protocol.size()) + std::string(protocol)),
        take(std::move(the_take)) {}
  const std::string flag;
  Descriptor listening;
  const std::string protocols;  // as TLS spells them
  const TakePlainEnd take;
};

struct Handshake : Watched {
  Handshake(Port& the_port, Descriptor the_socket, std::string the_address)
      : Watched(Kind::kHandshake),
        port(the_port),
        socket(std::move(the_socket)),
        address(std::move(the_address)) {}
  Port& port;
  Descriptor socket;
  const std::string address;
  const Clock::time_point begun = Clock::now();
  std::unique_ptr<TlsSession> session;  // once the peer has said something
  std::list<std::unique_ptr<Handshake>>::iterator place;
};

}  // namespace

class TlsFront::Impl {
 public:
  Impl(const TlsOptions& options, std::unique_ptr<TlsCertificates> certificates,
       std::unique_ptr<TlsRelay> relay, TlsCounts& counts)
      : options_(options),
        certificates_(std::move(certificates)),
        relay_(std::move(relay)),
        counts_(counts),
        woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        events_(epoll_create1(EPOLL_CLOEXEC)) {}
  ~Impl() { StopAccepting(); }

  bool Prepare() {
    return woken_.get() >= 0 && events_.get() >= 0 && Watch(woken_.get(), EPOLLIN, wake_);
  }
  absl::StatusOr<std::string> Listen(std::string_view flag, const std::string& address,
                                     std::string_view protocol, TakePlainEnd take);
  void Begin() {
    thread_ = std::thread([this] { Run(); });
    pthread_setname_np(thread_.native_handle(), "cb-tls-hands");
  }
  void StopAccepting();
  bool Drain(std::chrono::milliseconds grace) { return relay_->Drain(grace); }
  void Look() { certificates_->Look(); }
  bool accepting() const { return accepting_.load(); }

 private:
  bool Watch(int descriptor, uint32_t events, Watched& watched) const {
    epoll_event event = {};
    event.events = events;
    event.data.ptr = &watched;
    return epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  }
  void Run();
  void ListenAgain(bool listens);
  void AcceptAt(Port& port);
  void OnNoFile(const Port& port);
  void Go(Handshake& handshake);
  void HandOver(Handshake& handshake);
  void End(Handshake& handshake, HandshakeEnd how);
  void LookAtSlow();
  bool MaySay(HandshakeEnd how);

  const TlsOptions options_;
  const std::unique_ptr<TlsCertificates> certificates_;
  const std::unique_ptr<TlsRelay> relay_;
  TlsCounts& counts_;
  const Descriptor woken_, events_;
  Watched wake_{Watched::Kind::kWake};
  std::list<Port> ports_;
  std::list<std::unique_ptr<Handshake>> handshakes_;  // the oldest first
  SpareDescriptors spare_{kSpareDescriptors};
  std::array<Clock::time_point, kNumHandshakeEnds> said_ = {};
  Clock::time_point paused_until_;  // while `accepting_` is false
  std::atomic<bool> accepting_ = true, ending_ = false;
  std::thread thread_;
};

absl::StatusOr<std::string> TlsFront::Impl::Listen(std::string_view flag,
                                                   const std::string& address,
                                                   std::string_view protocol, TakePlainEnd take) {
  absl::StatusOr<Descriptor> listening = ListenOn(address, options_.user_timeout);
  if (!listening.ok()) {
    return absl::UnavailableError(fmt::format("--{} {} cannot be bound: {}", flag, address,
                                              std::string(listening.status().message())));
  }
  Port& port = ports_.emplace_back(flag, *std::move(listening), protocol, std::move(take));
  if (!Watch(port.listening.get(), EPOLLIN, port)) {
    return absl::UnavailableError(fmt::format("--{} {} cannot be bound: {}", flag, address,
                                              std::generic_category().message(errno)));
  }
  return fmt::format("{}:{}", address.substr(0, address.rfind(':')), PortOf(port.listening.get()));
}

void TlsFront::Impl::StopAccepting() {
  if (!thread_.joinable()) return;
  ending_.store(true);
  eventfd_write(woken_.get(), 1);
  thread_.join();
  for (Port& port : ports_) port.listening.Close();
  counts_.handshakes -= static_cast<int64_t>(handshakes_.size());
  handshakes_.clear();
}

void TlsFront::Impl::Run() {
  constexpr int kMost = 128;
  std::array<epoll_event, kMost> events;
  while (!ending_.load()) {
    const bool timed = !handshakes_.empty() || !accepting_.load();
    const int n = epoll_wait(events_.get(), events.data(), kMost,
                             timed ? static_cast<int>(kBetweenLooks.count()) : -1);
    // Handshakes first: whoever is accepted may end one. And one that has ended is not looked at again.
    std::vector<Port*> ports;
    for (int i = 0; i < n; ++i) {
      auto& watched = *static_cast<Watched*>(events[static_cast<size_t>(i)].data.ptr);
      if (watched.kind == Watched::Kind::kHandshake) {
        Go(static_cast<Handshake&>(watched));
      } else if (watched.kind == Watched::Kind::kPort) {
        ports.push_back(&static_cast<Port&>(watched));
      }
    }
    for (Port* const port : ports) AcceptAt(*port);
    LookAtSlow();
  }
}

// A port that is not listened at is watched for nothing, so that it wakes nobody.
void TlsFront::Impl::ListenAgain(bool listens) {
  accepting_.store(listens);
  paused_until_ = Clock::now() + kAcceptPause;
  for (Port& port : ports_) {
    epoll_event event = {};
    event.events = listens ? uint32_t{EPOLLIN} : 0;
    event.data.ptr = static_cast<Watched*>(&port);
    epoll_ctl(events_.get(), EPOLL_CTL_MOD, port.listening.get(), &event);
  }
}

void TlsFront::Impl::AcceptAt(Port& port) {
  for (int i = 0; i < kMostAtOnce && accepting_.load(); ++i) {
    Descriptor accepted(
        accept4(port.listening.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (accepted.get() < 0) {
      if (errno == EMFILE || errno == ENFILE) {
        OnNoFile(port);
        continue;
      }
      // A client that was gone again is no reason to leave the others.
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINVAL) return;
      continue;
    }
    std::string address = PeerOf(accepted.get());
    if (address.empty()) continue;
    const int socket = accepted.get();
    auto& handshake = *handshakes_.emplace_back(
        std::make_unique<Handshake>(port, std::move(accepted), std::move(address)));
    handshake.place = std::prev(handshakes_.end());
    ++counts_.handshakes;
    if (!Watch(socket, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, handshake)) {
      End(handshake, HandshakeEnd::kUnserved);
    }
    if (static_cast<int64_t>(handshakes_.size()) > options_.max_handshakes) {
      End(*handshakes_.front(), HandshakeEnd::kPushedOut);
    }
  }
  spare_.Refill();
}

void TlsFront::Impl::OnNoFile(const Port& port) {
  if (MaySay(HandshakeEnd::kUnserved)) {
    spdlog::error("--{}: all {} files that the process may open are open, {} of them handshakes",
                  port.flag, DescriptorLimit(), handshakes_.size());
  }
  if (spare_.Release()) return;
  if (!handshakes_.empty()) return End(*handshakes_.front(), HandshakeEnd::kPushedOut);
  ListenAgain(false);
}

void TlsFront::Impl::Go(Handshake& handshake) {
  if (handshake.session == nullptr) {
    char byte = 0;
    const ssize_t got = recv(handshake.socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (got <= 0) return End(handshake, HandshakeEnd::kFailed);
    handshake.session = std::make_unique<TlsSession>(
        certificates_->current(), handshake.socket.get(), handshake.port.protocols);
  }
  switch (handshake.session->Accept()) {
    case TlsStep::kDone:
      return HandOver(handshake);
    case TlsStep::kWaits:
      return;
    case TlsStep::kEnded:
    case TlsStep::kBroken:
      if (MaySay(HandshakeEnd::kFailed)) {
        spdlog::warn("--{}: a handshake of {} failed: {}", handshake.port.flag, handshake.address,
                     handshake.session->why());
      }
      return End(handshake, HandshakeEnd::kFailed);
  }
}

void TlsFront::Impl::HandOver(Handshake& handshake) {
  auto pair = MakePlainPair();
  while (!pair && spare_.Release()) pair = MakePlainPair();
  if (!pair) return End(handshake, HandshakeEnd::kUnserved);
  PlainEnd end{.descriptor = std::move(pair->servers),
               .peer = std::move(pair->name),
               .address = handshake.address,
               .certificate = handshake.session->PeerName()};
  Port& port = handshake.port;
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, handshake.socket.get(), nullptr);
  relay_->Add(std::move(handshake.session), std::move(handshake.socket), std::move(pair->relays));
  End(handshake, HandshakeEnd::kOk);
  port.take(std::move(end));
}

void TlsFront::Impl::End(Handshake& handshake, HandshakeEnd how) {
  ++counts_.ended[static_cast<size_t>(how)];
  --counts_.handshakes;
  handshakes_.erase(handshake.place);
}

void TlsFront::Impl::LookAtSlow() {
  const auto now = Clock::now();
  while (!handshakes_.empty() && now - handshakes_.front()->begun >= options_.handshake_timeout) {
    End(*handshakes_.front(), HandshakeEnd::kTimeout);
  }
  if (!accepting_.load() && now >= paused_until_) ListenAgain(true);
}

// At most once in a while for each way to end.
bool TlsFront::Impl::MaySay(HandshakeEnd how) {
  Clock::time_point& said = said_[static_cast<size_t>(how)];
  const auto now = Clock::now();
  if (said != Clock::time_point() && now - said < kBetweenLogs) return false;
  said = now;
  return true;
}

TlsFront::TlsFront(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsFront::~TlsFront() = default;

absl::StatusOr<std::unique_ptr<TlsFront>> TlsFront::Open(const TlsOptions& options,
                                                         TlsCounts& counts) {
  auto certificates = TlsCertificates::Open(options.files, counts);
  if (!certificates.ok()) return certificates.status();
  auto relay = TlsRelay::Start(options.threads, counts);
  if (!relay.ok()) return relay.status();
  auto impl = std::make_unique<Impl>(options, *std::move(certificates), *std::move(relay), counts);
  if (!impl->Prepare()) return absl::ResourceExhaustedError("no file is left for ports of TLS");
  return std::unique_ptr<TlsFront>(new TlsFront(std::move(impl)));
}

absl::StatusOr<std::string> TlsFront::Listen(std::string_view flag, const std::string& address,
                                             std::string_view protocol, TakePlainEnd take) {
  return impl_->Listen(flag, address, protocol, std::move(take));
}
void TlsFront::Begin() { impl_->Begin(); }
void TlsFront::StopAccepting() { impl_->StopAccepting(); }
bool TlsFront::Drain(std::chrono::milliseconds grace) { return impl_->Drain(grace); }
void TlsFront::Look() { impl_->Look(); }
bool TlsFront::accepting() const { return impl_->accepting(); }

}  // namespace cellbatch
