#include "server/grpc/wire_tap.h"

#include <dlfcn.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "server/grpc/listening_socket.h"

namespace cellbatch {

namespace {

// The function of that name behind ours: the system's, or a sanitizer's before it. It is looked for once; two threads that do
// so at once find the same.
template <typename Function>
class OfSystem {
 public:
  constexpr explicit OfSystem(const char* name) : name_(name) {}
  Function* Get() {
    Function* found = found_.load(std::memory_order_relaxed);
    if (found != nullptr) return found;
    found = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name_));
    found_.store(found, std::memory_order_relaxed);
    return found;
  }

 private:
  const char* const name_;
  std::atomic<Function*> found_ = nullptr;
};

constinit OfSystem<ssize_t(int, msghdr*, int)> receive_of_system("recvmsg");
constinit OfSystem<ssize_t(int, const msghdr*, int)> send_of_system("sendmsg");
constinit OfSystem<int(int)> close_of_system("close");

// All are looked for before the program begins: the loader's lock may be held for long later, by the constructors of a
// model's own library, and nobody could read a byte meanwhile.
[[maybe_unused]] const bool all_found = receive_of_system.Get() != nullptr &&
                                        send_of_system.Get() != nullptr &&
                                        close_of_system.Get() != nullptr;

// What a function of the system is told is a number: whose it is can only be a table of the process. Parts of it are made
// when they are first needed and stay.
constexpr size_t kPart = 1024, kParts = 1024;
using Part = std::array<std::atomic<WireTap*>, kPart>;
constinit std::array<std::atomic<Part*>, kParts> table = {};

std::atomic<WireTap*>* PlaceOf(int descriptor) {
  const auto number = static_cast<size_t>(descriptor);  // of a negative one: too large
  if (number >= kPart * kParts) return nullptr;
  Part* part = table[number / kPart].load(std::memory_order_acquire);
  return part == nullptr ? nullptr : &(*part)[number % kPart];
}

std::atomic<WireTap*>* NewPlaceOf(int descriptor) {
  const auto number = static_cast<size_t>(descriptor);
  if (number >= kPart * kParts) return nullptr;
  std::atomic<Part*>& part = table[number / kPart];
  if (part.load(std::memory_order_acquire) == nullptr) {
    auto made = std::make_unique<Part>();
    Part* none = nullptr;
    if (part.compare_exchange_strong(none, made.get())) made.release();
  }
  return PlaceOf(descriptor);
}

GrpcCut ReasonOf(FrameFault fault) {
  switch (fault) {
    case FrameFault::kHeaderBlock:
      return GrpcCut::kHeaderBlock;
    case FrameFault::kResets:
      return GrpcCut::kResets;
    default:
      return GrpcCut::kStreams;
  }
}

// The bytes of a message's buffers, piece by piece.
template <typename Use>
void ForEachPiece(const msghdr& message, size_t bytes, const Use& use) {
  for (size_t i = 0; i < message.msg_iovlen && bytes > 0; ++i) {
    const size_t size = std::min(message.msg_iov[i].iov_len, bytes);
    use(std::string_view(static_cast<const char*>(message.msg_iov[i].iov_base), size));
    bytes -= size;
  }
}

}  // namespace

std::shared_ptr<WireTap> WireTap::Enrol(int connection, std::shared_ptr<WireTotals> totals) {
  std::atomic<WireTap*>* place = NewPlaceOf(connection);
  if (place == nullptr) return nullptr;
  Leave(connection);  // of a descriptor of that number that was closed by other ways
  auto tap = std::make_shared<WireTap>(std::move(totals));
  tap->self_ = tap;
  int domain = 0;
  socklen_t size = sizeof(domain);
  tap->pair_ =
      getsockopt(connection, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
  place->store(tap.get(), std::memory_order_release);
  return tap;
}

WireTap* WireTap::Of(int descriptor) {
  const std::atomic<WireTap*>* place = PlaceOf(descriptor);
  return place == nullptr ? nullptr : place->load(std::memory_order_acquire);
}

std::shared_ptr<WireTap> WireTap::Leave(int descriptor) {
  std::atomic<WireTap*>* place = PlaceOf(descriptor);
  if (place == nullptr || place->load(std::memory_order_relaxed) == nullptr) return nullptr;
  WireTap* tap = place->exchange(nullptr, std::memory_order_acq_rel);
  return tap == nullptr ? nullptr : std::move(tap->self_);
}

bool WireTap::InForce() {
  // Where the loader looks first for what a library lacks.
  return dlsym(RTLD_DEFAULT, "recvmsg") == reinterpret_cast<void*>(&recvmsg) &&
         dlsym(RTLD_DEFAULT, "sendmsg") == reinterpret_cast<void*>(&sendmsg) &&
         dlsym(RTLD_DEFAULT, "close") == reinterpret_cast<void*>(&close);
}

int64_t WireTap::NowNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

WireTap::WireTap(std::shared_ptr<WireTotals> totals)
    : totals_(std::move(totals)),
      watch_(totals_->bounds, totals_->resets),
      goodbyes_(totals_->goodbyes.load()) {}

WireTap::~WireTap() {
  totals_->streams -= streams_.load();
  totals_->bytes -= bytes_.load();
  if (bytes_.load() > 0) --totals_->amid;
}

std::optional<GrpcCut> WireTap::cut() const {
  const int reason = cut_.load(std::memory_order_acquire);
  if (reason == kNotCut) return std::nullopt;
  return static_cast<GrpcCut>(reason);
}

void WireTap::Cut(GrpcCut reason) {
  int none = kNotCut;
  cut_.compare_exchange_strong(none, static_cast<int>(reason));
}

int64_t WireTap::OldestBegun() const {
  const std::lock_guard lock(mutex_);
  return watch_.OldestBegun();
}

ssize_t WireTap::Receive(int descriptor, msghdr* message, int flags) {
  if (!cut()) {
    const int64_t round = Round();
    if (EndRound(descriptor, round)) {
      errno = EAGAIN;
      return -1;
    }
    const ssize_t received =
        ReceiveSome(descriptor, message, flags, static_cast<size_t>(round - round_bytes_));
    round_bytes_ = received > 0 ? round_bytes_ + received : 0;
    // Bytes are not taken, or are none of the connection's.
    if (received <= 0 || (flags & (MSG_PEEK | MSG_ERRQUEUE)) != 0) return received;
    const FrameFault fault = Take(*message, static_cast<size_t>(received));
    if (fault == FrameFault::kNone) return received;
    Cut(ReasonOf(fault));
    HangUpAtOnce(descriptor);
  }
  errno = ECONNRESET;
  return -1;
}

int64_t WireTap::Round() const {
  const int64_t amid = std::max<int64_t>(totals_->amid.load(std::memory_order_relaxed), 1);
  return std::clamp(kOfAll / amid, kLeastARound, kMostARound);
}

ssize_t WireTap::ReceiveSome(int descriptor, msghdr* message, int flags, size_t room) {
  const size_t pieces = message->msg_iovlen;
  size_t whole = 0;  // pieces that fit
  while (whole < pieces && message->msg_iov[whole].iov_len <= room) {
    room -= message->msg_iov[whole++].iov_len;
  }
  if (whole == pieces) return receive_of_system.Get()(descriptor, message, flags);
  const size_t length = std::exchange(message->msg_iov[whole].iov_len, room);
  message->msg_iovlen = whole + 1;
  const ssize_t received = receive_of_system.Get()(descriptor, message, flags);
  message->msg_iov[whole].iov_len = length;
  message->msg_iovlen = pieces;
  return received;
}

// Of a pair the kernel does not look again when it is told how much is enough, but whoever waits is woken when there may be more
// room than before, and is told of what is to be read, too. Too much unsent, and nobody would be woken: the round goes on.
bool WireTap::WakePair(int descriptor) {
  int unsent = 0, room = 0;
  socklen_t size = sizeof(room);
  if (ioctl(descriptor, TIOCOUTQ, &unsent) != 0 ||
      getsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &room, &size) != 0 ||
      int64_t{4} * unsent > room) {
    return false;
  }
  room /= 2;  // the kernel doubles it
  return setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0;
}

// The kernel looks again whether there is anything to read when it is told how much is enough, and wakes who waits for that:
// so the edge that was taken is not the last. But it looks for bytes: that the peer is gone was said by the edge before, so where
// nothing is there a round ends by itself, with what recvmsg says. False, too: the kernel cannot be told.
bool WireTap::EndRound(int descriptor, int64_t round) {
  constexpr int kAny = 1;
  if (round_bytes_ >= round) {
    round_bytes_ = 0;
    ends_ = kEndsARound;
  }
  if (ends_ == 0) return false;
  int there = 0;
  if (ioctl(descriptor, FIONREAD, &there) != 0 || there == 0) {
    ends_ = 0;
    return false;
  }
  --ends_;
  if (pair_) return WakePair(descriptor);
  return setsockopt(descriptor, SOL_SOCKET, SO_RCVLOWAT, &kAny, sizeof(kAny)) == 0;
}

FrameFault WireTap::Take(const msghdr& message, size_t bytes) {
  const int64_t now_ns = NowNs();
  FrameFault fault = FrameFault::kNone;
  const std::lock_guard lock(mutex_);
  ForEachPiece(message, bytes, [&](std::string_view piece) {
    if (fault == FrameFault::kNone) fault = watch_.Take(piece, now_ns);
  });
  if (fault != FrameFault::kNone) seen_.store(watch_.seen(), std::memory_order_relaxed);
  Publish();
  return fault;
}

ssize_t WireTap::Send(int descriptor, const msghdr* message, int flags) {
  if (!greeted_) {
    greeted_ = true;
    const std::lock_guard lock(mutex_);
    watch_.Greeted();
  }
  const int goodbyes = totals_->goodbyes.load(std::memory_order_relaxed);
  if (goodbyes != goodbyes_ && !SayGoodbye(descriptor, goodbyes)) {
    errno = EAGAIN;
    return -1;
  }
  const ssize_t sent = send_of_system.Get()(descriptor, message, flags);
  if (sent > 0) Sent(*message, static_cast<size_t>(sent));
  return sent;
}

// gRPC's own comes when it shuts down, and ends what it learns of from then on CANCELLED, as if the client had wished it.
bool WireTap::SayGoodbye(int descriptor, int goodbyes) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kGoaway = "\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0"sv;
  const bool may_stand_here = sent_.between() && !amid_headers_;
  if (goodbye_bytes_ == 0 && !may_stand_here) return true;
  std::string left(kGoaway.substr(goodbye_bytes_));
  iovec piece = {.iov_base = left.data(), .iov_len = left.size()};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t sent = send_of_system.Get()(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) goodbye_bytes_ += static_cast<size_t>(sent);
  if (goodbye_bytes_ == kGoaway.size()) {
    goodbyes_ = goodbyes;
    goodbye_bytes_ = 0;
  }
  return goodbye_bytes_ == 0;
}

void WireTap::Sent(const msghdr& message, size_t bytes) {
  enum : uint8_t { kData = 0, kHeaders = 1, kRstStream = 3, kContinuation = 9 };
  enum : uint8_t { kEndStream = 1, kEndHeaders = 4 };
  ForEachPiece(message, bytes, [&](std::string_view piece) {
    while (!piece.empty()) {
      if (sent_.in_payload()) {
        sent_.TakePayload(piece);
        continue;
      }
      const auto frame = sent_.TakeHeader(piece);
      if (!frame) break;
      const bool headers = frame->type == kHeaders || frame->type == kContinuation;
      amid_headers_ = headers && (frame->flags & kEndHeaders) == 0;
      const bool ends = frame->type == kRstStream ||
                        (frame->type <= kHeaders && (frame->flags & kEndStream) != 0);
      if (!ends || open_.load(std::memory_order_relaxed) == 0) continue;
      const std::lock_guard lock(mutex_);
      watch_.Ended(frame->stream);
      Publish();
    }
  });
}

void WireTap::Publish() {
  const auto set = [](std::atomic<int64_t>& own, std::atomic<int64_t>* of_all, int64_t value) {
    const int64_t before = own.load(std::memory_order_relaxed);
    if (value == before) return;
    own.store(value, std::memory_order_relaxed);
    if (of_all != nullptr) of_all->fetch_add(value - before, std::memory_order_relaxed);
  };
  if (watch_.opened() > 0) called_.store(true, std::memory_order_relaxed);
  set(open_, nullptr, watch_.open());
  set(streams_, &totals_->streams, watch_.unwhole().streams);
  const bool was_amid = bytes_.load(std::memory_order_relaxed) > 0;
  set(bytes_, &totals_->bytes, watch_.unwhole().bytes);
  const bool is_amid = watch_.unwhole().bytes > 0;
  if (is_amid != was_amid) totals_->amid.fetch_add(is_amid ? 1 : -1, std::memory_order_relaxed);
}

}  // namespace cellbatch

extern "C" {

// NOLINTBEGIN: the names are the system's.
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  cellbatch::WireTap* tap = cellbatch::WireTap::Of(descriptor);
  return tap == nullptr ? cellbatch::receive_of_system.Get()(descriptor, message, flags)
                        : tap->Receive(descriptor, message, flags);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  cellbatch::WireTap* tap = cellbatch::WireTap::Of(descriptor);
  return tap == nullptr ? cellbatch::send_of_system.Get()(descriptor, message, flags)
                        : tap->Send(descriptor, message, flags);
}

int close(int descriptor) {
  // Before its number may be another's.
  const std::shared_ptr<cellbatch::WireTap> left = cellbatch::WireTap::Leave(descriptor);
  return cellbatch::close_of_system.Get()(descriptor);
}
// NOLINTEND
}
