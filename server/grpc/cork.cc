#include "server/grpc/cork.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace cellbatch {

// Where it fails every answer leaves on its own, as without it.
void Cork::Set(bool held) const {
  if (socket_ < 0) return;
  const int value = held ? 1 : 0;
  setsockopt(socket_, IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
}

void Cork::Hold() {
  const std::lock_guard lock(mutex_);
  if (holders_++ == 0) Set(true);
}

void Cork::Flow() {
  const std::lock_guard lock(mutex_);
  if (--holders_ == 0) Set(false);
}

void Cork::Remove() {
  const std::lock_guard lock(mutex_);
  if (holders_ > 0) Set(false);
  socket_ = -1;
}

}  // namespace cellbatch
