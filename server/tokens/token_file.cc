#include "server/tokens/token_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "openssl/sha.h"
#include "proto/token_name.h"
#include "proto/tokens.pb.h"
#include "server/repository/text_file.h"
#include "server/requests/client_text.h"

namespace cellbatch {

namespace {

constexpr int64_t kMostShare = 100;

// Below 0: no digit.
int Digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ReadHash(std::string_view text, TokenHash& hash) {
  if (text.size() != 2 * hash.size()) return false;
  for (size_t i = 0; i < hash.size(); ++i) {
    const int high = Digit(absl::ascii_tolower(static_cast<unsigned char>(text[2 * i])));
    const int low = Digit(absl::ascii_tolower(static_cast<unsigned char>(text[2 * i + 1])));
    if (high < 0 || low < 0) return false;
    hash[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

// What the parser says of a text, without what might be a hash of it, or a token that somebody wrote there.
absl::Status WithoutSecrets(const absl::Status& status, const std::string& file) {
  constexpr size_t kShortestSecret = 16;
  const std::string what(status.message());
  size_t run = 0;
  for (size_t i = file.size(); i < what.size(); ++i) {
    run = absl::ascii_isalnum(static_cast<unsigned char>(what[i])) ? run + 1 : 0;
    if (run < kShortestSecret) continue;
    // FILE:LINE:COLUMN stays.
    const size_t place = what.find(": ", file.size());
    return absl::InvalidArgumentError(
        what.substr(0, place) +
        ": this is no entry of tokens; what stands there is not repeated here");
  }
  return status;
}

absl::Status CheckNumbers(const disk::Token& token) {
  const std::pair<const char*, int64_t> counts[] = {{"max_requests", token.max_requests()},
                                                    {"max_cells", token.max_cells()},
                                                    {"max_bytes", token.max_bytes()},
                                                    {"share_percent", token.share_percent()}};
  for (const auto& [field, value] : counts) {
    if (value < 0) {
      return absl::InvalidArgumentError(fmt::format("{} is {}, expected 0 or more", field, value));
    }
  }
  if (token.share_percent() > kMostShare) {
    return absl::InvalidArgumentError(
        fmt::format("share_percent is {}, expected 0 to {}", token.share_percent(), kMostShare));
  }
  constexpr double kLeastRate = 1e-3, kMostRate = 1e9;
  const double rate = token.requests_per_second();
  if (rate == 0 || (rate >= kLeastRate && rate <= kMostRate)) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("requests_per_second is {}, expected 0 or {} to {}",
                                                rate, kLeastRate, kMostRate));
}

absl::StatusOr<TokenEntry> ReadEntry(const disk::Token& token) {
  if (MayHoldHash(token.name())) {
    return absl::InvalidArgumentError(
        fmt::format("a name of {} characters holds {} hexadecimal digits in a row: a hash belongs "
                    "in sha256, names are shown in logs; it is not repeated here",
                    token.name().size(), kFewestHashDigits));
  }
  if (!IsTokenName(token.name())) {
    return absl::InvalidArgumentError(
        fmt::format("name {} is not 1 to {} letters, digits, '.', '_' or '-'", Quoted(token.name()),
                    kMostTokenName));
  }
  TokenEntry entry{.name = token.name()};
  if (token.sha256().empty() || token.sha256_size() > kMostHashes) {
    return absl::InvalidArgumentError(fmt::format("token {} has {} of sha256, expected 1 to {}",
                                                  entry.name, token.sha256_size(), kMostHashes));
  }
  for (const std::string& text : token.sha256()) {
    if (!ReadHash(text, entry.hashes.emplace_back())) {
      return absl::InvalidArgumentError(
          fmt::format("token {}: a sha256 of {} characters is not 64 hexadecimal digits",
                      entry.name, text.size()));
    }
  }
  if (token.models_size() > kMostModelsEach) {
    return absl::InvalidArgumentError(fmt::format("token {} has {} models, expected at most {}",
                                                  entry.name, token.models_size(),
                                                  kMostModelsEach));
  }
  if (std::ranges::find(token.models(), std::string()) != token.models().end()) {
    return absl::InvalidArgumentError(fmt::format(
        "token {}: a model's name is empty; leave `models` out for every one", entry.name));
  }
  if (absl::Status status = CheckNumbers(token); !status.ok()) {
    return absl::InvalidArgumentError(
        fmt::format("token {}: {}", entry.name, std::string(status.message())));
  }
  entry.rights = {.models = {token.models().begin(), token.models().end()},
                  .requests_per_second = token.requests_per_second(),
                  .may_control = token.may_control()};
  entry.limits = {.most = {token.max_requests(), token.max_cells(), token.max_bytes()},
                  .share_percent = token.share_percent()};
  return entry;
}

}  // namespace

TokenHash HashOf(std::string_view token) {
  TokenHash hash = {};
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), hash.data());
  return hash;
}

absl::StatusOr<std::vector<TokenEntry>> ParseTokens(std::string_view text,
                                                    const std::string& file) {
  disk::TokenFile tokens;
  google::protobuf::TextFormat::ParseInfoTree places;
  absl::Status status = ParseTextFormat(text, file, tokens, &places);
  if (!status.ok()) return WithoutSecrets(status, file);
  if (tokens.token_size() > kMostTokens) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} tokens, expected at most {}", file, tokens.token_size(), kMostTokens));
  }
  std::vector<TokenEntry> entries;
  std::set<std::string> names;
  std::map<TokenHash, std::string> hashes;
  for (int i = 0; i < tokens.token_size(); ++i) {
    const auto wrong = [&](std::string_view what) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: {}", PlaceOf(places, *disk::TokenFile::descriptor(), "token", i, file), what));
    };
    absl::StatusOr<TokenEntry> entry = ReadEntry(tokens.token(i));
    if (!entry.ok())
      return wrong({entry.status().message().data(), entry.status().message().size()});
    if (!names.insert(entry->name).second) {
      return wrong(fmt::format("another token is called {}, too", entry->name));
    }
    for (const TokenHash& hash : entry->hashes) {
      const auto [other, is_new] = hashes.emplace(hash, entry->name);
      if (!is_new) {
        return wrong(
            fmt::format("token {} has a sha256 that {} has already", entry->name, other->second));
      }
    }
    entries.push_back(*std::move(entry));
  }
  return entries;
}

}  // namespace cellbatch
