#include "client/security.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <utility>

#include "absl/status/status.h"

namespace cellbatch {
namespace {

absl::Status ReadInto(const char* flag, const std::string& path, std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ifstream file(path, std::ios::binary);
  text.assign(std::istreambuf_iterator<char>(file), {});
  if (!file || text.empty()) {
    return absl::InvalidArgumentError(fmt::format("--{}={}: cannot be read", flag, path));
  }
  return absl::OkStatus();
}

}  // namespace

void SecurityFlags::AddTo(Flags& flags) {
  flags.Add("tls", &tls, "", "Speak TLS.");
  flags.Add("ca", &ca, "FILE",
            "PEM: the roots that the server's certificate must lead to; none = the system's.");
  flags.Add("cert", &certificate, "FILE", "PEM: a certificate to show, for servers that ask.");
  flags.Add("key", &key, "FILE", "PEM: its key.");
  flags.Add("token-file", &token_file, "FILE",
            "A token to send with every call; the file has nothing else in it.");
}

absl::StatusOr<Security> SecurityFlags::Read() const {
  if (!tls && !(ca.empty() && certificate.empty() && key.empty())) {
    return absl::InvalidArgumentError("--ca, --cert and --key want --tls");
  }
  if (certificate.empty() != key.empty()) {
    return absl::InvalidArgumentError("--cert and --key want each other");
  }
  Security security{.tls = tls};
  absl::Status status = ReadInto("ca", ca, security.roots);
  if (status.ok()) status = ReadInto("cert", certificate, security.certificate);
  if (status.ok()) status = ReadInto("key", key, security.key);
  if (status.ok()) status = ReadInto("token-file", token_file, security.token);
  if (!status.ok()) return status;
  while (security.token.ends_with('\n') || security.token.ends_with('\r')) {
    security.token.pop_back();
  }
  return security;
}

}  // namespace cellbatch
