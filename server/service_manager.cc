#include "server/service_manager.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace cellbatch {

absl::Status TellServiceManager(const std::string& socket_name, const std::string& state) {
  if (socket_name.empty()) return absl::OkStatus();
  const auto failed = [&](int reason) {
    return absl::UnavailableError(
        fmt::format("--notify-socket={}: {}", socket_name, std::strerror(reason)));
  };
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_name.size() > sizeof(address.sun_path)) return failed(ENAMETOOLONG);
  socket_name.copy(address.sun_path, socket_name.size());
  if (socket_name[0] == '@') address.sun_path[0] = '\0';
  const int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (file < 0) return failed(errno);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name.size());
  const ssize_t sent = sendto(file, state.data(), state.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), size);
  const int reason = errno;
  close(file);
  return sent < 0 ? failed(reason) : absl::OkStatus();
}

}  // namespace cellbatch
