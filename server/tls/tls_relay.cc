#include "server/tls/tls_relay.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace cellbatch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPiece = 16 << 10;         // of one read: a record of TLS
constexpr size_t kLeastOfARecord = 512;     // as what one counts that brings less
constexpr size_t kMostATurn = 16 * kPiece;  // of one connection, each way, before the others' turn
constexpr std::chrono::seconds kLinger{2};  // for a peer to leave that has been told all
constexpr std::chrono::seconds kLast{20};   // for it to take what it is owed after the server's end
constexpr std::chrono::milliseconds kBetweenLooks{200};

enum class Turn : uint8_t { kWaits, kMore };

// One connection: what each direction has read and not passed on, and how far its end is.
class Relayed {
 public:
  Relayed(std::unique_ptr<TlsSession> session, Descriptor socket, Descriptor plain)
      : session_(std::move(session)), socket_(std::move(socket)), plain_(std::move(plain)) {}

  bool Watch(int events) {
    epoll_event event = {};
    event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = this;
    return epoll_ctl(events, EPOLL_CTL_ADD, socket_.get(), &event) == 0 &&
           epoll_ctl(events, EPOLL_CTL_ADD, plain_.get(), &event) == 0;
  }
  // Carries what there is, in both directions, for a turn.
  Turn Carry() {
    const Turn in = CarryIn();
    const Turn out = CarryOut();
    return in == Turn::kMore || out == Turn::kMore ? Turn::kMore : Turn::kWaits;
  }
  // The server has ended it, or hung up.
  bool left() const { return plain_ended_; }
  // And the peer was told, after all that the server said.
  bool told() const { return told_ || broken_; }
  bool over() const { return broken_ || (told_ && peer_ended_); }

  // The thread's: whether it is in line for a turn, and since when it lingers.
  bool in_line = false, owing = true;
  Clock::time_point left_at, told_at;
  std::list<std::unique_ptr<Relayed>>::iterator place;
  std::list<Relayed*>::iterator lingers;

 private:
  Turn CarryIn();
  Turn CarryOut();
  // True: all of it is the server's, or nobody's.
  bool GivePlain(const char* bytes, size_t size);
  bool GivePeer(const char* bytes, size_t size);
  void EndOut();

  const std::unique_ptr<TlsSession> session_;
  const Descriptor socket_, plain_;
  std::string to_plain_, to_peer_;
  bool peer_ended_ = false, passed_on_ = false;  // the peer's end, and the server knows
  bool plain_ended_ = false, told_ = false;      // the server's, and the peer knows
  bool deaf_ = false;                            // the server reads no more
  bool broken_ = false;
};

// Each thread's own: what lies in it is passed on, or kept by a connection, before the next read.
std::array<char, kPiece>& Piece() {
  thread_local std::array<char, kPiece> piece;
  return piece;
}

bool Relayed::GivePlain(const char* bytes, size_t size) {
  while (size > 0 && !deaf_) {
    const ssize_t sent = send(plain_.get(), bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes += sent;
      size -= static_cast<size_t>(sent);
      continue;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      to_plain_ = std::string(bytes, size);
      return false;
    }
    if (errno != EINTR) deaf_ = true;
  }
  to_plain_ = std::string();
  return true;
}

Turn Relayed::CarryIn() {
  size_t carried = 0;
  while (!broken_) {
    if (!to_plain_.empty()) {
      const std::string kept = std::move(to_plain_);
      if (!GivePlain(kept.data(), kept.size())) return Turn::kWaits;
    }
    if (peer_ended_) {
      if (!std::exchange(passed_on_, true)) shutdown(plain_.get(), SHUT_WR);
      return Turn::kWaits;
    }
    if (carried >= kMostATurn) return Turn::kMore;
    size_t got = 0;
    switch (session_->Read(Piece().data(), kPiece, got)) {
      case TlsStep::kDone:
        carried += std::max(got, kLeastOfARecord);
        if (!GivePlain(Piece().data(), got)) return Turn::kWaits;
        break;
      case TlsStep::kWaits:
        return Turn::kWaits;
      case TlsStep::kEnded:
        peer_ended_ = true;
        break;
      case TlsStep::kBroken:
        broken_ = true;
        break;
    }
  }
  return Turn::kWaits;
}

bool Relayed::GivePeer(const char* bytes, size_t size) {
  while (size > 0) {
    size_t taken = 0;
    switch (session_->Write(bytes, size, taken)) {
      case TlsStep::kDone:
        bytes += taken;
        size -= taken;
        break;
      case TlsStep::kWaits:
        to_peer_ = std::string(bytes, size);
        return false;
      case TlsStep::kEnded:
      case TlsStep::kBroken:
        broken_ = true;
        return false;
    }
  }
  to_peer_ = std::string();
  return true;
}

Turn Relayed::CarryOut() {
  size_t carried = 0;
  while (!broken_) {
    if (!to_peer_.empty()) {
      const std::string kept = std::move(to_peer_);
      if (!GivePeer(kept.data(), kept.size())) return Turn::kWaits;
    }
    if (plain_ended_) {
      EndOut();
      return Turn::kWaits;
    }
    if (carried >= kMostATurn) return Turn::kMore;
    const ssize_t got = recv(plain_.get(), Piece().data(), kPiece, MSG_DONTWAIT);
    if (got > 0) {
      carried += static_cast<size_t>(got);
      if (!GivePeer(Piece().data(), static_cast<size_t>(got))) return Turn::kWaits;
    } else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      return Turn::kWaits;
    } else if (got == 0 || errno != EINTR) {
      plain_ended_ = true;
    }
  }
  return Turn::kWaits;
}

void Relayed::EndOut() {
  if (told_) return;
  const TlsStep step = session_->End();
  if (step == TlsStep::kWaits) return;
  told_ = true;
  shutdown(socket_.get(), SHUT_WR);
}

}  // namespace

class TlsRelay::Thread {
 public:
  Thread(TlsCounts& counts, std::atomic<int64_t>& owing)
      : counts_(counts),
        owing_(owing),
        woken_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        events_(epoll_create1(EPOLL_CLOEXEC)) {}
  ~Thread() {
    if (thread_.joinable()) {
      ending_.store(true);
      Wake();
      thread_.join();
    }
    counts_.connections -= static_cast<int64_t>(all_.size() + added_.size());
  }

  bool Begin(int number) {
    epoll_event event = {};
    event.events = EPOLLIN;
    if (woken_.get() < 0 || events_.get() < 0 ||
        epoll_ctl(events_.get(), EPOLL_CTL_ADD, woken_.get(), &event) != 0) {
      return false;
    }
    thread_ = std::thread([this] { Run(); });
    pthread_setname_np(thread_.native_handle(), ("cb-tls-" + std::to_string(number)).c_str());
    return true;
  }
  void Add(std::unique_ptr<Relayed> connection) {
    {
      const std::lock_guard lock(mutex_);
      added_.push_back(std::move(connection));
    }
    Wake();
  }

 private:
  void Run();
  void Wake() const { eventfd_write(woken_.get(), 1); }
  void TakeAdded();
  void LineUp(Relayed& connection) {
    if (!std::exchange(connection.in_line, true)) line_.push_back(&connection);
  }
  void GiveTurns();
  void Settle(Relayed& connection);
  void Remove(Relayed& connection);
  void LookAtLingering();

  TlsCounts& counts_;
  std::atomic<int64_t>& owing_;
  const Descriptor woken_, events_;
  std::list<std::unique_ptr<Relayed>> all_;
  std::vector<Relayed*> line_;     // who has something to carry
  std::list<Relayed*> lingering_;  // whose server has left, the oldest first
  Clock::time_point looked_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Relayed>> added_;  // under it
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

void TlsRelay::Thread::Run() {
  constexpr int kMost = 128;
  std::array<epoll_event, kMost> events;
  while (!ending_.load()) {
    const int wait = !line_.empty()        ? 0
                     : !lingering_.empty() ? static_cast<int>(kBetweenLooks.count())
                                           : -1;
    const int n = epoll_wait(events_.get(), events.data(), kMost, wait);
    for (int i = 0; i < n; ++i) {
      auto* const connection = static_cast<Relayed*>(events[static_cast<size_t>(i)].data.ptr);
      connection == nullptr ? TakeAdded() : LineUp(*connection);
    }
    GiveTurns();
    LookAtLingering();
  }
}

void TlsRelay::Thread::TakeAdded() {
  eventfd_t ignored = 0;
  eventfd_read(woken_.get(), &ignored);
  std::vector<std::unique_ptr<Relayed>> added;
  {
    const std::lock_guard lock(mutex_);
    added.swap(added_);
  }
  for (auto& connection : added) {
    Relayed& here = *connection;
    here.place = all_.insert(all_.end(), std::move(connection));
    here.lingers = lingering_.end();
    // Bytes may lie in the session already, of which the socket tells nothing.
    here.Watch(events_.get()) ? LineUp(here) : Remove(here);
  }
}

void TlsRelay::Thread::GiveTurns() {
  std::vector<Relayed*> line;
  line.swap(line_);
  for (Relayed* connection : line) {
    connection->in_line = false;
    if (connection->Carry() == Turn::kMore) LineUp(*connection);
    Settle(*connection);
  }
}

void TlsRelay::Thread::Settle(Relayed& connection) {
  if (connection.owing && connection.told()) {
    connection.owing = false;
    --owing_;
  }
  if (connection.over()) return Remove(connection);
  const auto now = Clock::now();
  if (connection.left() && connection.lingers == lingering_.end()) {
    connection.left_at = now;
    connection.lingers = lingering_.insert(lingering_.end(), &connection);
  }
  if (connection.told() && connection.told_at == Clock::time_point()) connection.told_at = now;
}

void TlsRelay::Thread::Remove(Relayed& connection) {
  if (connection.owing) --owing_;
  if (connection.in_line) std::erase(line_, &connection);
  if (connection.lingers != lingering_.end()) lingering_.erase(connection.lingers);
  --counts_.connections;
  all_.erase(connection.place);
}

void TlsRelay::Thread::LookAtLingering() {
  while (lingering_.size() > kMostLingering) Remove(*lingering_.front());
  const auto now = Clock::now();
  if (lingering_.empty() || now - looked_ < kBetweenLooks) return;
  looked_ = now;
  for (auto at = lingering_.begin(); at != lingering_.end();) {
    Relayed& connection = **at++;
    const bool told = connection.told_at != Clock::time_point();
    if (now - connection.left_at >= kLast || (told && now - connection.told_at >= kLinger)) {
      Remove(connection);
    }
  }
}

absl::StatusOr<std::unique_ptr<TlsRelay>> TlsRelay::Start(int threads, TlsCounts& counts) {
  std::unique_ptr<TlsRelay> relay(new TlsRelay(counts));
  for (int i = 0; i < threads; ++i) {
    relay->threads_.push_back(std::make_unique<Thread>(counts, relay->owing_));
    if (!relay->threads_.back()->Begin(i)) {
      return absl::ResourceExhaustedError("no file is left for the relay of TLS");
    }
  }
  return relay;
}

TlsRelay::TlsRelay(TlsCounts& counts) : counts_(counts) {}
TlsRelay::~TlsRelay() = default;

void TlsRelay::Add(std::unique_ptr<TlsSession> session, Descriptor socket, Descriptor plain) {
  ++owing_;
  ++counts_.connections;
  threads_[next_.fetch_add(1) % threads_.size()]->Add(
      std::make_unique<Relayed>(std::move(session), std::move(socket), std::move(plain)));
}

bool TlsRelay::Drain(std::chrono::milliseconds grace) const {
  constexpr std::chrono::milliseconds kLookEvery{2};
  const auto end = Clock::now() + grace;
  while (owing_.load() > 0) {
    if (Clock::now() >= end) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

}  // namespace cellbatch
