#include "server/http/http_exchange.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace cellbatch {

const std::string* HttpRequest::Header(std::string_view name) const {
  const auto found = std::ranges::find_if(headers, [&](const auto& header) {
    return std::ranges::equal(header.first, name, [](char a, char b) {
      return absl::ascii_tolower(static_cast<unsigned char>(a)) ==
             absl::ascii_tolower(static_cast<unsigned char>(b));
    });
  });
  return found == headers.end() ? nullptr : &found->second;
}

}  // namespace cellbatch
