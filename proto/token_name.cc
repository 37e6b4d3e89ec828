#include "proto/token_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace cellbatch {

bool IsTokenName(std::string_view name) {
  return !name.empty() && name.size() <= kMostTokenName && std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

bool MayHoldHash(std::string_view name) {
  size_t run = 0;
  for (const char c : name) {
    run = absl::ascii_isxdigit(static_cast<unsigned char>(c)) ? run + 1 : 0;
    if (run == kFewestHashDigits) return true;
  }
  return false;
}

}  // namespace cellbatch
