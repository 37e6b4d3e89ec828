// Two sockets of this process that are connected, for the plain bytes of a connection that speaks TLS outside.
//
// gRPC tells connections apart by what getpeername says of them, so the relay's end has a name: of the abstract
// namespace, where no file is left behind, and drawn by chance, so that no two are the same.
#ifndef CELLBATCH_SERVER_TLS_PLAIN_PAIR_H_
#define CELLBATCH_SERVER_TLS_PLAIN_PAIR_H_

#include <optional>
#include <string>

#include "server/grpc/listening_socket.h"

namespace cellbatch {

struct PlainPair {
  Descriptor relays, servers;  // neither waits
  std::string name;            // of the relay's, as gRPC spells the peer of the server's
};

// None: there is no file for it. Any thread.
std::optional<PlainPair> MakePlainPair();

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TLS_PLAIN_PAIR_H_
