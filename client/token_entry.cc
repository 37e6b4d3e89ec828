#include "client/token_entry.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/sha.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "proto/token_name.h"

namespace cellbatch {
namespace {

template <size_t kBytes>
std::string InHex(const std::array<uint8_t, kBytes>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

}  // namespace

std::string HashInHex(const std::string& text) {
  std::array<uint8_t, SHA256_DIGEST_LENGTH> hash = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return InHex(hash);
}

absl::StatusOr<std::string> DrawToken(const std::string& name, const std::string& file) {
  // One entry that the server does not take makes it refuse the whole file.
  if (!IsTokenName(name) || MayHoldHash(name)) {
    return absl::InvalidArgumentError(fmt::format(
        "--name={}: expected 1 to {} letters, digits, '.', '_' or '-', and not {} hexadecimal "
        "digits in a row",
        name, kMostTokenName, kFewestHashDigits));
  }
  std::array<uint8_t, 32> chance = {};
  if (getrandom(chance.data(), chance.size(), 0) != static_cast<ssize_t>(chance.size())) {
    return absl::InternalError("the system has no random bits");
  }
  const std::string token = InHex(chance);
  const std::string line = token + "\n";
  const int made = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written =
      made >= 0 && write(made, line.data(), line.size()) == static_cast<ssize_t>(line.size());
  const int why = errno;
  if (made >= 0) close(made);
  if (!written) {
    return absl::InvalidArgumentError(
        fmt::format("--token-file={}: cannot be made: {}", file, std::strerror(why)));
  }
  return fmt::format("token {{\n  name: \"{}\"\n  sha256: \"{}\"\n}}\n", name, HashInHex(token));
}

}  // namespace cellbatch
