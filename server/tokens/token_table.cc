#include "server/tokens/token_table.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "openssl/crypto.h"
#include "server/repository/text_file.h"
#include "spdlog/spdlog.h"

namespace cellbatch {

namespace {

constexpr std::string_view kScheme = "bearer";
constexpr size_t kMostToken = 4096;

// The token of "Bearer TOKEN"; empty: it is none.
std::string_view TokenOf(std::string_view authorization) {
  if (authorization.size() <= kScheme.size() || authorization[kScheme.size()] != ' ') return {};
  for (size_t i = 0; i < kScheme.size(); ++i) {
    if (absl::ascii_tolower(static_cast<unsigned char>(authorization[i])) != kScheme[i]) return {};
  }
  std::string_view token = authorization.substr(kScheme.size() + 1);
  while (token.starts_with(' ')) token.remove_prefix(1);
  while (token.ends_with(' ')) token.remove_suffix(1);
  return token.size() > kMostToken ? std::string_view() : token;
}

}  // namespace

const char* Name(Unauthenticated reason) {
  constexpr const char* kNames[kNumUnauthenticated] = {"missing", "malformed", "unknown"};
  return kNames[static_cast<size_t>(reason)];
}

bool TokenTable::SameHash::operator()(const TokenHash& a, const TokenHash& b) const {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

absl::StatusOr<std::unique_ptr<TokenTable>> TokenTable::Open(const std::string& file) {
  std::unique_ptr<TokenTable> table(new TokenTable(file));
  const auto text = ReadTextFile(file, kMostTokenFileBytes);
  const absl::Status status = text.ok() ? table->Take(*text) : text.status();
  if (!status.ok()) {
    return absl::Status(status.code(), fmt::format("--tokens {}", std::string(status.message())));
  }
  return table;
}

absl::Status TokenTable::Take(std::string_view text) {
  seen_ = std::string(text);
  absl::StatusOr<std::vector<TokenEntry>> entries = ParseTokens(text, file_);
  if (!entries.ok()) return entries.status();
  auto tokens = std::make_shared<ByHash>();
  const std::lock_guard lock(mutex_);
  size_t names = uses_.size();
  for (const TokenEntry& entry : *entries) names += uses_.contains(entry.name) ? 0 : 1;
  if (names > kMostNames) {
    return absl::ResourceExhaustedError(
        fmt::format("{}: with these, {} names have been in force since the start, the most is {}",
                    file_, names, kMostNames));
  }
  for (TokenEntry& entry : *entries) {
    std::unique_ptr<AccessUse>& use = uses_[entry.name];
    if (use == nullptr) use = std::make_unique<AccessUse>(entry.name);
    use->party.SetLimits(entry.limits);
    // What a message of many owes at the old rate would be waited for after it is raised, for hours.
    const double rate = entry.rights.requests_per_second;
    if (std::exchange(rates_[entry.name], rate) != rate) {
      use->free_at_ns.store(0, std::memory_order_relaxed);
    }
    const auto access = std::make_shared<const Access>(std::move(entry.rights), *use);
    for (const TokenHash& hash : entry.hashes) tokens->emplace(hash, access);
  }
  tokens_ = std::move(tokens);
  return absl::OkStatus();
}

void TokenTable::Look() {
  const auto text = ReadTextFile(file_, kMostTokenFileBytes);
  if (text.ok() && *text == seen_) return told_.clear();  // if it is gone again, that is news
  const absl::Status status = text.ok() ? Take(*text) : text.status();
  if (status.ok()) {
    told_.clear();
    ++taken_;
    spdlog::info("--tokens {}: taken", file_);
    return;
  }
  const std::string why(status.message());
  if (text.ok() || why != told_) {
    ++files_refused_;
    spdlog::error("--tokens {}; the tokens that were in force stay", why);
  }
  told_ = why;
}

absl::Status TokenTable::Refuse(Unauthenticated reason, const char* why) const {
  refused_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
  return absl::UnauthenticatedError(why);
}

absl::StatusOr<std::shared_ptr<const Access>> TokenTable::Find(
    std::string_view authorization) const {
  if (authorization.empty()) {
    return Refuse(Unauthenticated::kMissing,
                  "the call brings no token: authorization: Bearer TOKEN is expected (--tokens)");
  }
  const std::string_view token = TokenOf(authorization);
  if (token.empty()) {
    return Refuse(Unauthenticated::kMalformed, "its authorization is no Bearer TOKEN (--tokens)");
  }
  const TokenHash hash = HashOf(token);
  std::shared_ptr<const ByHash> tokens;
  {
    const std::lock_guard lock(mutex_);
    tokens = tokens_;
  }
  const auto found = tokens->find(hash);
  if (found == tokens->end()) {
    return Refuse(Unauthenticated::kUnknown, "its token is not known (--tokens)");
  }
  return found->second;
}

void TokenTable::ForEach(const std::function<void(const AccessUse&)>& use) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, of] : uses_) use(*of);
}

}  // namespace cellbatch
