// A connection in plain bytes, as it is handed to a server that did not accept it: one end of a pair, whose other end
// the relay of TLS has (tls_relay.h). Owns its descriptor.
#ifndef CELLBATCH_SERVER_TLS_PLAIN_END_H_
#define CELLBATCH_SERVER_TLS_PLAIN_END_H_

#include <functional>
#include <string>

#include "server/grpc/listening_socket.h"

namespace cellbatch {

struct PlainEnd {
  Descriptor descriptor = {};  // non-blocking
  std::string peer = {};       // its other end, as gRPC spells it; no two at a time are called so
  std::string address = {};    // who is behind it: "ipv4:10.0.0.7:43210"
  std::string certificate =
      {};  // what the certificate that it brought names; empty: it brought none
};

// Never waits; called from the thread that shakes hands.
using TakePlainEnd = std::function<void(PlainEnd end)>;

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_PLAIN_END_H_
