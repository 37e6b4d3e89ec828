#include "tests/testing/notify_socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

#include "cells/check.h"

namespace cellbatch::testing {

NotifySocket::NotifySocket(std::string name)
    : name_(name.empty() ? fmt::format("@cellbatch-test-{}", getpid()) : std::move(name)),
      socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  Check(name_.size() <= sizeof(address.sun_path), "a socket's name is no longer than that");
  name_.copy(address.sun_path, name_.size());
  if (name_[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
  Check(bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0,
        "a socket is bound that nobody else has");
}

NotifySocket::~NotifySocket() {
  close(socket_);
  if (name_[0] != '@') unlink(name_.c_str());
}

std::string NotifySocket::Heard(std::chrono::milliseconds patience) const {
  pollfd readable = {.fd = socket_, .events = POLLIN, .revents = 0};
  if (poll(&readable, 1, static_cast<int>(patience.count())) != 1) return "";
  char text[1024];
  const ssize_t size = recv(socket_, text, sizeof(text), 0);
  return size < 0 ? "" : std::string(text, static_cast<size_t>(size));
}

}  // namespace cellbatch::testing
