// Who asks, for shares of the admission (admission.h): not who may ask. The first of these that a call brings:
//
//   x-cellbatch-tenant   metadata or header, set by a client, or by a proxy that knows better
//   authorization        the credential itself is not kept, only a number made of it
//   its certificate      what it names (server/tls), where clients bring some
//   the peer's address   without its port: all connections of a machine, or of a proxy, are one client
//
// A client can write any tenant it likes: where that matters a proxy is to set it. Pure.
#ifndef CELLBATCH_SERVER_REQUESTS_CLIENT_IDENTITY_H_
#define CELLBATCH_SERVER_REQUESTS_CLIENT_IDENTITY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "fmt/format.h"

namespace cellbatch {

inline constexpr std::string_view kTenantHeader = "x-cellbatch-tenant";
inline constexpr std::string_view kAuthorizationHeader = "authorization";

// Empty: not brought. `peer` as gRPC spells it, whichever port it came to (listening_socket.h): "ipv4:10.0.0.7:43210",
// "ipv6:%5B::1%5D:43210", "unix:".
inline uint64_t ClientOf(std::string_view tenant, std::string_view authorization,
                         std::string_view certificate, std::string_view peer) {
  if (!tenant.empty()) return std::hash<std::string_view>()(tenant);
  if (!authorization.empty()) return std::hash<std::string_view>()(authorization);
  if (!certificate.empty()) return std::hash<std::string_view>()(certificate);
  return std::hash<std::string_view>()(peer.substr(0, peer.rfind(':')));
}

// The same for people: "tenant acme", "credential 5f3a90c1" (of the number, not of the credential), "certificate CN=acme",
// or the peer. Before all of these the name of the token that let it in, which nobody else can write: "token search", "token
// search, tenant acme"; empty: none did.
inline std::string ClientName(std::string_view token, std::string_view tenant,
                              std::string_view authorization, std::string_view certificate,
                              std::string_view peer) {
  if (!token.empty()) {
    return fmt::format("token {}{}{}", token, tenant.empty() ? "" : ", tenant ", tenant);
  }
  if (!tenant.empty()) return fmt::format("tenant {}", tenant);
  if (!authorization.empty()) {
    return fmt::format("credential {:08x}", ClientOf("", authorization, "", "") & 0xffffffff);
  }
  return certificate.empty() ? std::string(peer) : fmt::format("certificate {}", certificate);
}

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_CLIENT_IDENTITY_H_
