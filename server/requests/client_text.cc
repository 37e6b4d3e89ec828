#include "server/requests/client_text.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "cells/unfold/utf8.h"
#include "fmt/format.h"

namespace cellbatch {

namespace {

constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxQuotedBytes = 64;

}  // namespace

absl::Status CheckModelName(std::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("model_name is empty");
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(fmt::format("model_name has {} bytes, the most is {}: {}",
                                                  name.size(), kMaxNameBytes, Quoted(name)));
  }
  const bool forbidden = std::any_of(name.begin(), name.end(), [](char c) {
    return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (forbidden || name.find("..") != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "model_name {} is no name of a model: separators, \"..\" and control characters "
        "are not allowed",
        Quoted(name)));
  }
  // Names stand in texts of proto3 and on the page of metrics, and whoever reads one that is none cannot read the rest either.
  if (!IsUtf8(name)) {
    return absl::InvalidArgumentError(
        fmt::format("model_name {} is no name of a model: it is no UTF-8", Quoted(name)));
  }
  return absl::OkStatus();
}

absl::Status CheckModelVersion(std::string_view version) {
  if (version.empty()) return absl::OkStatus();
  int64_t number = 0;
  const auto [end, error] =
      std::from_chars(version.data(), version.data() + version.size(), number);
  if (error != std::errc() || end != version.data() + version.size() || number < 1 ||
      version.front() == '0') {
    return absl::InvalidArgumentError(fmt::format(
        "model_version {} is no version: expected a positive decimal number without leading zeros",
        Quoted(version)));
  }
  return absl::OkStatus();
}

std::string Quoted(std::string_view text) {
  const bool longer = text.size() > kMaxQuotedBytes;
  const std::string shown(text.substr(0, kMaxQuotedBytes));
  return '"' + absl::CEscape(shown) + (longer ? "...\"" : "\"");
}

std::string AsUtf8(std::string text) { return IsUtf8(text) ? text : absl::CEscape(text); }

}  // namespace cellbatch
