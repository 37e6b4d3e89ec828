#include "server/grpc/listening_socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include "fmt/format.h"

namespace cellbatch {

namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::Status Why(int error) {
  const std::string reason = std::generic_category().message(error);
  return error == EADDRINUSE ? absl::AlreadyExistsError(reason) : absl::UnavailableError(reason);
}

absl::StatusOr<Found> Resolve(const std::string& host, const std::string& port) {
  addrinfo hints = {};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found);
  if (error == EAI_SYSTEM) return Why(errno);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return Found(found, freeaddrinfo);
}

void Set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof(value));
}

absl::StatusOr<Descriptor> ListenOnOne(const addrinfo& to, std::chrono::milliseconds user_timeout) {
  Descriptor listening(
      socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
  if (listening.get() < 0) return Why(errno);
  Set(listening.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (to.ai_family == AF_INET6) Set(listening.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  // Both are inherited by what is accepted.
  Set(listening.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  Set(listening.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(user_timeout.count()));
  if (bind(listening.get(), to.ai_addr, to.ai_addrlen) != 0) return Why(errno);
  if (listen(listening.get(), SOMAXCONN) != 0) return Why(errno);
  return listening;
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : descriptor_(other.Release()) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    Close();
    descriptor_ = other.Release();
  }
  return *this;
}

void Descriptor::Close() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

int Descriptor::Release() { return std::exchange(descriptor_, -1); }

absl::StatusOr<Descriptor> ListenOn(const std::string& address,
                                    std::chrono::milliseconds user_timeout) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  const std::string port = address.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";  // as everywhere else
  if (host == "0.0.0.0") {
    const absl::StatusOr<Found> both = Resolve("::", port);
    if (both.ok()) {
      absl::StatusOr<Descriptor> listening = ListenOnOne(**both, user_timeout);
      if (listening.ok() || absl::IsAlreadyExists(listening.status())) return listening;
    }
  }
  const absl::StatusOr<Found> found = Resolve(host, port);
  return found.ok() ? ListenOnOne(**found, user_timeout) : found.status();
}

void HangUpAtOnce(int connection) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  if (connect(connection, &nobody, sizeof(nobody)) != 0) shutdown(connection, SHUT_RDWR);
}

int PortOf(int listening) {
  sockaddr_storage own = {};
  socklen_t size = sizeof(own);
  if (getsockname(listening, reinterpret_cast<sockaddr*>(&own), &size) != 0) return 0;
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

std::string PeerOf(int connection) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(connection, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<sockaddr_in&>(peer);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return fmt::format("ipv4:{}:{}", text, ntohs(v4.sin_port));
  }
  if (peer.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<sockaddr_in6&>(peer);
  const int port = ntohs(v6.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    constexpr size_t kBeforeV4 = 12;
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + kBeforeV4, text, sizeof(text));
    return fmt::format("ipv4:{}:{}", text, port);
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  // As in a URI: brackets and the mark before a link's number are escaped.
  const std::string scope =
      v6.sin6_scope_id == 0 ? std::string() : fmt::format("%25{}", v6.sin6_scope_id);
  return fmt::format("ipv6:%5B{}{}%5D:{}", text, scope, port);
}

}  // namespace cellbatch
