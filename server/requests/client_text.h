// What clients write as text, before it is used or shown. Pure functions; any thread.
#ifndef CELLBATCH_SERVER_REQUESTS_CLIENT_TEXT_H_
#define CELLBATCH_SERVER_REQUESTS_CLIENT_TEXT_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace cellbatch {

// Metadata or header: what a client calls its request, where the message does not say it; and what a request that failed is
// called in the log (failure_log.h), in its answer.
inline constexpr std::string_view kRequestIdName = "cellbatch-request-id";

// A model name or version as a client may write it: INVALID_ARGUMENT otherwise, before it is used
// to look for anything. Names: 1 to 256 bytes of UTF-8, no separators, control characters or "..".
// Versions: empty, or a decimal number without leading zeros.
absl::Status CheckModelName(std::string_view name);
absl::Status CheckModelVersion(std::string_view version);

// Text of a client, made safe and short for an error or a log line: printable ASCII, at most about
// 64 characters, in double quotes.
std::string Quoted(std::string_view text);

// The text, for a message of proto3; with escapes where it is no UTF-8.
std::string AsUtf8(std::string text);

}  // namespace cellbatch

#endif  // CELLBATCH_SERVER_REQUESTS_CLIENT_TEXT_H_
