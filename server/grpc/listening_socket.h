// A listening TCP socket, and peers spelled as gRPC spells them. Any thread.
#ifndef CELLBATCH_SERVER_GRPC_LISTENING_SOCKET_H_
#define CELLBATCH_SERVER_GRPC_LISTENING_SOCKET_H_

#include <chrono>
#include <string>

#include "absl/status/statusor.h"

namespace cellbatch {

// Closes what it holds.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { Close(); }
  void Close();
  int get() const { return descriptor_; }
  int Release();

 private:
  int descriptor_ = -1;
};

// HOST:PORT or [HOST]:PORT; "localhost" is its IPv4 address. Another that listens there is an error (ALREADY_EXISTS; others: UNAVAILABLE; the text is the system's
// reason and no more), though not one that has gone. A wildcard takes
// IPv4 and IPv6, where there is IPv6. Connections accepted from it send at once (TCP_NODELAY) and end when what was sent is not
// taken for `user_timeout` (0: as long as the system would wait). Non-blocking.
absl::StatusOr<Descriptor> ListenOn(const std::string& address,
                                    std::chrono::milliseconds user_timeout);
// Resets a connection, whoever has it: what is on its way is dropped, nothing more is received, and who polls it is woken. (After a
// shutdown gRPC would read what a flooding peer has sent for as long as it lasts.) One of this process's pairs, which have no
// such reset, is shut down.
void HangUpAtOnce(int connection);
// 0: it has none.
int PortOf(int listening);
// "ipv4:10.0.0.7:43210", also where a socket of IPv6 took it, "ipv6:%5B2001:db8::7%5D:43210"; empty: it is gone, or no peer of
// TCP's.
std::string PeerOf(int connection);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_LISTENING_SOCKET_H_
