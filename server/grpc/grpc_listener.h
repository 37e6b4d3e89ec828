// The gRPC port's own listening socket: connections are accepted here, counted, and handed to gRPC, which would take any
// number of them (and, once the process has no file left, none for a long time, without a word).
//
//   socket --accept--> guard: is there a place? who goes? --> gRPC        (or, with TLS: accepted and relayed elsewhere,
//                        |                                 |              and taken here: server/tls)
//                        |            every byte, as gRPC reads it: too much? (wire_tap.h)
//                        |
//                        +-- a second descriptor of each, to see its end and to hang up on it safely
//
// One thread, and a short-lived one for each connection that is handed over. It sleeps while there is no connection, and else looks a few times a second at those over which bytes came.
// No gRPC here: whom a connection is handed to is a function.
#ifndef CELLBATCH_SERVER_GRPC_GRPC_LISTENER_H_
#define CELLBATCH_SERVER_GRPC_GRPC_LISTENER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/grpc/connection_guard.h"
#include "server/grpc/frame_watch.h"
#include "server/tls/plain_end.h"

namespace cellbatch {

struct ListenerOptions {
  std::string address = "0.0.0.0:8001";  // HOST:PORT, [HOST]:PORT
  bool accepts = true;  // false: none are accepted here, all come by Take; the address is theirs
  int64_t max_connections = 4096;  // and at most a quarter of the files that the process may open
  FrameBounds frames = {};         // of one
  // Of all: what messages half sent, and the headers before them, keep in memory.
  int64_t max_unfinished_bytes = 256 << 20;
  std::chrono::milliseconds message_timeout{
      60'000};  // for a message, from its first byte to its last
  // How long what was sent may wait for the peer's kernel to take it.
  std::chrono::milliseconds user_timeout{20'000};
};

class GrpcListener {
 public:
  // Has the port from now on: who connects waits until Begin. UNAVAILABLE: the address cannot be bound. `counts`
  // outlives it.
  static absl::StatusOr<std::unique_ptr<GrpcListener>> Open(const ListenerOptions& options,
                                                            GrpcCounts& counts);
  // Ends its threads (which `take` must let go by then); connections stay gRPC's.
  ~GrpcListener();

  // Accepts. `take` owns the descriptor that it is given; called on a thread of its own for each, and may take its time.
  void Begin(std::function<void(int connection)> take);
  // One that was accepted elsewhere. Once it has begun; any thread; never waits: where too many wait to be taken, it is hung up on.
  void Take(PlainEnd end);
  // Accepts no more; connections that there are stay watched. When it returns, no other is given to `take`.
  void StopAccepting();

  // Who is connected is told to call elsewhere, with what is sent there next (HTTP/2's GOAWAY). Any thread.
  void SayGoodbye();

  // False: there is no file for another connection, and none here that could make room. Any thread.
  bool accepting() const;
  const std::string& address() const;  // host:port in use
  const ConnectionGuard& guard() const;

 private:
  class Impl;
  explicit GrpcListener(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_GRPC_GRPC_LISTENER_H_
