#include "server/tls/plain_pair.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fmt/format.h"

namespace cellbatch {

namespace {

// Errors of bind; 0: the name is the socket's.
int NameIt(int socket, const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const size_t size = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return bind(socket, reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(size)) == 0
             ? 0
             : errno;
}

}  // namespace

std::optional<PlainPair> MakePlainPair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return {};
  PlainPair pair{Descriptor(ends[0]), Descriptor(ends[1]), {}};
  for (int error = EADDRINUSE; error == EADDRINUSE;) {
    std::array<uint64_t, 2> chance = {};
    if (getrandom(chance.data(), sizeof(chance), 0) != sizeof(chance)) return {};
    const std::string name = fmt::format("cellbatch-tls-{:016x}{:016x}", chance[0], chance[1]);
    error = NameIt(pair.relays.get(), name);
    if (error != 0 && error != EADDRINUSE) return {};
    pair.name = "unix-abstract:" + name;
  }
  return pair;
}

}  // namespace cellbatch
