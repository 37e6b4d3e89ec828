#include "tests/e2e/tcp_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace cellbatch {

namespace {

constexpr time_t kPatienceSeconds = 600;  // as long as a test may take, which ends it

// Of a new socket, from an address of this machine if one is named.
bool Connect(int socket, const std::string& host, uint16_t port, const std::string& from) {
  sockaddr_in to = {}, own = {};
  to.sin_family = own.sin_family = AF_INET;
  to.sin_port = htons(port);
  inet_pton(AF_INET, host.c_str(), &to.sin_addr);
  const bool bound =
      from.empty() || (inet_pton(AF_INET, from.c_str(), &own.sin_addr) == 1 &&
                       bind(socket, reinterpret_cast<sockaddr*>(&own), sizeof(own)) == 0);
  return bound && connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
}

bool ConnectOverIpv6(int socket, const std::string& host, uint16_t port) {
  sockaddr_in6 to = {};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(port);
  return inet_pton(AF_INET6, host.c_str(), &to.sin6_addr) == 1 &&
         connect(socket, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
}

}  // namespace

TcpConnection::TcpConnection(const std::string& address, const std::string& from) {
  const size_t colon = address.rfind(':');
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(colon + 1)));
  const bool ipv6 = address.starts_with('[');
  socket_ = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!(ipv6 ? ConnectOverIpv6(socket_, address.substr(1, colon - 2), port)
             : Connect(socket_, address.substr(0, colon), port, from))) {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
    return;
  }
  const timeval patience{.tv_sec = kPatienceSeconds, .tv_usec = 0};
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

TcpConnection::~TcpConnection() {
  if (socket_ >= 0) close(socket_);
}

bool TcpConnection::Send(const std::string& bytes) const {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

std::string TcpConnection::Receive(size_t most) {
  std::string part(most, '\0');
  ssize_t n = 0;
  do {
    n = recv(socket_, part.data(), part.size(), 0);
  } while (n < 0 && errno == EINTR);  // a test that was stopped and goes on
  // A reset hangs up, too: the peer closed with bytes of ours unread.
  closed_ = n == 0 || (n < 0 && (errno == ECONNRESET || errno == EPIPE));
  part.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return part;
}

std::string TcpConnection::ReceiveUntil(const std::string& enough) {
  std::string all;
  for (std::string part; !(part = Receive()).empty();) {
    all += part;
    if (!enough.empty() && all.find(enough) != all.npos) break;
  }
  return all;
}

bool TcpConnection::ReceiveUntilClosed() {
  while (!Receive().empty()) {
  }
  return closed_;
}

bool RaiseOwnFileLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace cellbatch
