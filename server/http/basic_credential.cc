#include "server/http/basic_credential.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace cellbatch {

namespace {

constexpr std::string_view kScheme = "basic ";

}  // namespace

bool IsBasic(std::string_view authorization) {
  return authorization.size() >= kScheme.size() &&
         std::ranges::equal(kScheme, authorization.substr(0, kScheme.size()), [](char a, char b) {
           return a == absl::ascii_tolower(static_cast<unsigned char>(b));
         });
}

std::string BearerOfBasic(std::string_view authorization) {
  if (!IsBasic(authorization)) return "";
  const std::string_view coded = authorization.substr(kScheme.size());
  std::string text;
  if (!absl::Base64Unescape({coded.data(), coded.size()}, &text)) return "";
  // The first colon: a name has none, a token may.
  const size_t colon = text.find(':');
  if (colon == text.npos || colon + 1 == text.size()) return "";
  return "Bearer " + text.substr(colon + 1);
}

}  // namespace cellbatch
