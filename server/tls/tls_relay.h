// Carries bytes between connections that speak TLS and servers that speak plainly, after the handshake.
//
//   peer <==TLS==> socket --Read--> to_plain (16 KiB) --send--> pair <--> gRPC, or the server of HTTP
//                         <-Write-- to_peer  (16 KiB) <--recv--
//
// A direction is read no further while what was read last waits for room: who does not read holds up its own connection,
// and 32 KiB beside what the kernel has. An end of one direction is passed on when all before it was, so nothing is lost
// by it; after the server's end the peer has kLinger to leave, and kLast to take what it was owed.
//
// Some threads, each with its share of the connections; a connection that has much to carry takes turns with the others.
#ifndef CELLBATCH_SERVER_TLS_TLS_RELAY_H_
#define CELLBATCH_SERVER_TLS_TLS_RELAY_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/grpc/listening_socket.h"
#include "server/tls/tls_counts.h"
#include "server/tls/tls_session.h"

namespace cellbatch {

// Connections of one thread whose server has left them, at most: then the oldest of them ends at once.
inline constexpr size_t kMostLingering = 256;

class TlsRelay {
 public:
  // RESOURCE_EXHAUSTED: no file is left. `counts` outlives it.
  static absl::StatusOr<std::unique_ptr<TlsRelay>> Start(int threads, TlsCounts& counts);
  // Hangs up on whoever is left.
  ~TlsRelay();

  // One whose handshake is done. Any thread; never waits.
  void Add(std::unique_ptr<TlsSession> session, Descriptor socket, Descriptor plain);
  // Waits until every peer's kernel or ours has what servers said, and every server has ended its connections; or for so
  // long. True: nothing is owed to anybody.
  bool Drain(std::chrono::milliseconds grace) const;

 private:
  class Thread;
  explicit TlsRelay(TlsCounts& counts);

  TlsCounts& counts_;
  std::atomic<int64_t> owing_ =
      0;  // connections whose server has not ended them, or whose peer has not been told so
  std::atomic<uint64_t> next_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_TLS_RELAY_H_
