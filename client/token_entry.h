// Draws a token, and says what a server's file of tokens (proto/tokens.proto) is to have of it.
#ifndef CELLBATCH_CLIENT_TOKEN_ENTRY_H_
#define CELLBATCH_CLIENT_TOKEN_ENTRY_H_

#include <string>

#include "absl/status/statusor.h"

namespace cellbatch {

// Writes 256 random bits, as 64 hexadecimal digits, to a file that was not there and that only its owner may read;
// answers the entry. INVALID_ARGUMENT: a server does not take that name; the file is there already, or cannot be made.
absl::StatusOr<std::string> DrawToken(const std::string& name, const std::string& file);

// SHA-256 in hexadecimal.
std::string HashInHex(const std::string& text);

}  // namespace cellbatch

#endif  // CELLBATCH_CLIENT_TOKEN_ENTRY_H_
