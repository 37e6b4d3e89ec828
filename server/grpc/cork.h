// A connection's socket as the outlet of its answers (requests/answer_outlet.h): while anybody holds it, the kernel keeps what does
// not fill a packet (TCP_CORK), 200 ms at the very most. gRPC knows nothing of it, and whoever else sends over the
// connection meanwhile waits with the answers. A system call for the first Hold and the last Flow, under a lock.
#ifndef CELLBATCH_SERVER_GRPC_CORK_H_
#define CELLBATCH_SERVER_GRPC_CORK_H_

#include <cstdint>
#include <mutex>

#include "server/grpc/connection_guard.h"

namespace cellbatch {

// Any thread.
class Cork final : public ConnectionGuard::Account {
 public:
  // The socket is its maker's, who calls Remove before it is closed.
  explicit Cork(int socket) : socket_(socket) {}
  void Hold() override;
  void Flow() override;
  // It is left as it was found, and not touched again: its number may be another's soon.
  void Remove();

 private:
  void Set(bool held) const;

  std::mutex mutex_;
  int socket_;           // -1: it was removed
  int64_t holders_ = 0;  // more than one where several threads answer
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_CORK_H_
