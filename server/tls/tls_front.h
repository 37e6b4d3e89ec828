// Ports that speak TLS, before servers that do not.
//
//   socket --accept--> hands are shaken (bounded) --> relay <--> pair --> PlainEnd --> gRPC, or the server of HTTP
//            `-------- one thread -----------'   its own threads
//
// So every bound behind it is kept on plain bytes, as without TLS. One thread accepts and shakes hands: it never waits for
// a peer, and a flood of handshakes takes what it takes of that thread's time, not of the relay's. A peer that has said
// nothing costs a file; one in a handshake, up to 160 KiB. Beyond `max_handshakes` the oldest goes, so whoever is slow
// makes room, and nobody can keep a place for longer than `handshake_timeout`.
#ifndef CELLBATCH_SERVER_TLS_TLS_FRONT_H_
#define CELLBATCH_SERVER_TLS_TLS_FRONT_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/tls/plain_end.h"
#include "server/tls/tls_certificates.h"
#include "server/tls/tls_counts.h"

namespace cellbatch {

// Files that a connection has while it is served: the socket, the pair, and one that a server may add.
inline constexpr int64_t kDescriptorsOfTls = 4;

struct TlsOptions {
  TlsFiles files;
  std::chrono::milliseconds handshake_timeout{10'000};
  int64_t max_handshakes = 1024;
  int threads = 1;  // that relay
  // How long what was sent may wait for the peer's kernel to take it.
  std::chrono::milliseconds user_timeout{20'000};
};

class TlsFront {
 public:
  // INVALID_ARGUMENT: files that cannot be used. `counts` outlives it.
  static absl::StatusOr<std::unique_ptr<TlsFront>> Open(const TlsOptions& options,
                                                        TlsCounts& counts);
  // Hangs up on everybody.
  ~TlsFront();

  // Has the port from now on: who connects waits until Begin. `protocol` is what peers may ask for ("h2", "http/1.1").
  // The address in use; UNAVAILABLE: it cannot be bound, `flag` is named.
  absl::StatusOr<std::string> Listen(std::string_view flag, const std::string& address,
                                     std::string_view protocol, TakePlainEnd take);
  void Begin();
  // Accepts no more and lets go of those whose handshake is not done. When it returns, no TakePlainEnd is called again.
  void StopAccepting();
  // Once the servers have ended: TlsRelay::Drain.
  bool Drain(std::chrono::milliseconds grace);

  // Takes certificates that changed (TlsCertificates::Look). One thread at a time.
  void Look();
  // False: there is no file for another connection. Any thread.
  bool accepting() const;

 private:
  class Impl;
  explicit TlsFront(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_TLS_FRONT_H_
