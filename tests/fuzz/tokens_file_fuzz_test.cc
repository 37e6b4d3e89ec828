// Damaged files of tokens: each is refused in words that tell no hash, or every entry of it is within its bounds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <set>
#include <string>

#include "server/tokens/token_file.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr uint64_t kSeed = 20261124;

std::string HexOf(const std::string& token) {
  std::string text;
  for (const uint8_t byte : HashOf(token)) text += fmt::format("{:02x}", byte);
  return text;
}

std::string Good() {
  std::string text;
  for (const char* name : {"search", "batch", "operator", "x.y_z-1"}) {
    text += fmt::format(
        "token {{\n  name: \"{0}\"\n  sha256: \"{1}\"\n  sha256: \"{2}\"\n  models: \"tagger\"\n"
        "  max_requests: 10 max_cells: 1000 max_bytes: 100000\n  requests_per_second: 2.5\n"
        "  share_percent: 30 may_control: true\n}}\n",
        name, HexOf(name), HexOf(std::string(name) + "'s next"));
  }
  return text;
}

void ExpectWithinBounds(const std::vector<TokenEntry>& entries) {
  std::set<std::string> names;
  std::set<TokenHash> hashes;
  EXPECT_LE(entries.size(), static_cast<size_t>(kMostTokens));
  for (const TokenEntry& entry : entries) {
    EXPECT_TRUE(names.insert(entry.name).second);
    EXPECT_FALSE(entry.name.empty());
    EXPECT_LE(entry.name.size(), 64U);
    EXPECT_EQ(entry.name.find_first_of(" \"{}\n\\"), std::string::npos);
    EXPECT_FALSE(entry.hashes.empty());
    for (const TokenHash& hash : entry.hashes) EXPECT_TRUE(hashes.insert(hash).second);
    for (const std::string& model : entry.rights.models) EXPECT_FALSE(model.empty());
    EXPECT_GE(entry.rights.requests_per_second, 0);
    EXPECT_LE(entry.rights.requests_per_second, 1e9);
    EXPECT_GE(entry.limits.most.requests, 0);
    EXPECT_GE(entry.limits.most.cells, 0);
    EXPECT_GE(entry.limits.most.bytes, 0);
    EXPECT_GE(entry.limits.share_percent, 0);
    EXPECT_LE(entry.limits.share_percent, 100);
  }
}

TEST(TokensFileFuzzTest, DamagedFilesAreRefusedWithoutTellingAHashOrAreWithinBounds) {
  std::cout << "seed " << kSeed << "\n";
  const std::string good = Good();
  ASSERT_TRUE(ParseTokens(good, "tokens").ok());
  Mutator mutator(kSeed, {"token {", "}", "name: \"batch\"", "sha256: \"00\"", "models: \"\"",
                          "max_requests: -1", "max_bytes: 9223372036854775807",
                          "requests_per_second: nan", "requests_per_second: 1e308",
                          "share_percent: 101", "may_control: true", "# a comment", "\"\\377\""});
  int taken = 0, refused = 0;
  FuzzBudget budget(2000);
  while (budget.Next() && !HasFailure()) {
    const std::string damaged = mutator.Mutate(good);
    const auto entries = ParseTokens(damaged, "tokens");
    if (entries.ok()) {
      ++taken;
      ExpectWithinBounds(*entries);
      continue;
    }
    ++refused;
    const std::string why(entries.status().message());
    EXPECT_EQ(why.substr(0, 6), "tokens") << why;
    for (const char* name : {"search", "batch", "operator"}) {
      EXPECT_EQ(why.find(HexOf(name)), std::string::npos) << why;
    }
  }
  std::cout << taken << " taken, " << refused << " refused\n";
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace cellbatch
