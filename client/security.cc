#include "client/security.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"

namespace cellbatch {
namespace {

absl::Status Unusable(const char* flag, const std::string& path, const std::string& why) {
  return absl::InvalidArgumentError(fmt::format("--{}={}: {}", flag, path, why));
}

absl::Status ReadInto(const char* flag, const std::string& path, std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ifstream file(path, std::ios::binary);
  // By read, which says what went wrong by its state: an iterator over a folder, which opens like a file, would throw.
  std::array<char, 1 << 14> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) return Unusable(flag, path, "cannot be read");
  return text.empty() ? Unusable(flag, path, "is empty") : absl::OkStatus();
}

// gRPC ends the process that hands it metadata which HTTP/2 cannot carry, so another file given by mistake (a key, say) is
// refused here.
absl::Status ReadToken(const std::string& path, std::string& token) {
  constexpr const char* kFlag = "token-file";
  if (absl::Status status = ReadInto(kFlag, path, token); !status.ok()) return status;
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  if (token.empty() && !path.empty()) return Unusable(kFlag, path, "is empty");
  const auto wrong = std::find_if(token.begin(), token.end(), [](char c) {
    return !absl::ascii_isprint(static_cast<unsigned char>(c));
  });
  if (wrong == token.end()) return absl::OkStatus();
  return Unusable(kFlag, path,
                  fmt::format("byte {} is no printable ASCII character; a token has no others",
                              wrong - token.begin() + 1));
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
  if (status.ok()) status = ReadToken(token_file, security.token);
  if (!status.ok()) return status;
  return security;
}

}  // namespace cellbatch
