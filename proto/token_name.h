// What tokens.proto says of a token's name, for who reads an entry (the server) and who writes one (the client). Any thread.
#ifndef CELLBATCH_PROTO_TOKEN_NAME_H_
#define CELLBATCH_PROTO_TOKEN_NAME_H_

#include <cstddef>
#include <string_view>

namespace cellbatch {

constexpr size_t kMostTokenName = 64;     // characters
constexpr size_t kFewestHashDigits = 32;  // in a row

// 1 to kMostTokenName letters, digits, '.', '_' or '-'.
bool IsTokenName(std::string_view name);

// Whether so many hexadecimal digits follow each other: names stand in logs and in answers to operators, hashes nowhere.
bool MayHoldHash(std::string_view name);

}  // namespace cellbatch

#endif  // CELLBATCH_PROTO_TOKEN_NAME_H_
