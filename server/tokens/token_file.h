// The file of --tokens (proto/tokens.proto), read and checked whole. Pure.
#ifndef CELLBATCH_SERVER_TOKENS_TOKEN_FILE_H_
#define CELLBATCH_SERVER_TOKENS_TOKEN_FILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/requests/access.h"
#include "server/requests/admission.h"

namespace cellbatch {

inline constexpr int kMostTokens = 4096, kMostHashes = 8, kMostModelsEach = 256;
inline constexpr int64_t kMostTokenFileBytes = 4 << 20;

using TokenHash = std::array<uint8_t, 32>;
TokenHash HashOf(std::string_view token);

struct TokenEntry {
  std::string name;
  std::vector<TokenHash> hashes = {};
  Access::Rights rights = {};
  PartyLimits limits = {};
};

// INVALID_ARGUMENT: "FILE:LINE: what", of what is malformed, twice there, or beyond a bound; no hash stands in it.
absl::StatusOr<std::vector<TokenEntry>> ParseTokens(std::string_view text, const std::string& file);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_TOKENS_TOKEN_FILE_H_
