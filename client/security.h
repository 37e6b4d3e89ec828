// How a client shows who it is, and knows the server: TLS, and a token. Plain values; no gRPC header is needed.
#ifndef CELLBATCH_CLIENT_SECURITY_H_
#define CELLBATCH_CLIENT_SECURITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/flags.h"

namespace cellbatch {

struct Security {
  bool tls = false;
  std::string roots = {};  // PEM: whose certificates are believed; empty: those of the system
  std::string certificate = {}, key = {};  // PEM: its own, for servers that ask for one
  std::string token = {};  // sent with every call; without TLS, for all on the way to read
};

// The flags of programs: --tls, --ca, --cert, --key, --token-file.
struct SecurityFlags {
  bool tls = false;
  std::string ca = {}, certificate = {}, key = {}, token_file = {};

  void AddTo(Flags& flags);
  // Reads the files. INVALID_ARGUMENT: a file cannot be read, or a flag stands without another that it needs.
  absl::StatusOr<Security> Read() const;
};

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_SECURITY_H_
