#include "server/tokens/token_table.h"

#include <filesystem>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/testing/certificates.h"

namespace cellbatch {
namespace {

std::string HexOf(const std::string& token) {
  std::string text;
  for (const uint8_t byte : HashOf(token)) text += fmt::format("{:02x}", byte);
  return text;
}
std::string Entry(const std::string& name, const std::string& token, const std::string& more = "") {
  return fmt::format("token {{ name: \"{}\" sha256: \"{}\" {} }}\n", name, HexOf(token), more);
}
std::string WhyNot(const std::string& text) {
  return std::string(ParseTokens(text, "tokens").status().message());
}

TEST(TokenFileTest, AHashIsSha256) {
  EXPECT_EQ(HexOf("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TokenFileTest, EveryFieldIsRead) {
  const auto entries = ParseTokens("token {\n  name: \"search\" sha256: \"" + HexOf("a") +
                                       "\" sha256: \"" + HexOf("b") +
                                       "\" models: \"tagger\" max_requests: 1 max_cells: 2 "
                                       "max_bytes: 3 requests_per_second: 4.5 "
                                       "share_percent: 6 may_control: true }",
                                   "tokens");
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 1U);
  const TokenEntry& entry = entries->front();
  EXPECT_EQ(entry.name, "search");
  EXPECT_EQ(entry.hashes, (std::vector<TokenHash>{HashOf("a"), HashOf("b")}));
  EXPECT_EQ(entry.rights.models, std::vector<std::string>{"tagger"});
  EXPECT_EQ(entry.rights.requests_per_second, 4.5);
  EXPECT_TRUE(entry.rights.may_control);
  EXPECT_EQ(entry.limits.most.requests, 1);
  EXPECT_EQ(entry.limits.most.cells, 2);
  EXPECT_EQ(entry.limits.most.bytes, 3);
  EXPECT_EQ(entry.limits.share_percent, 6);
}

TEST(TokenFileTest, WhatIsWrongIsNamedWithItsLineAndNoHashIsTold) {
  EXPECT_EQ(WhyNot(""), "");
  const std::string good = Entry("a", "1");
  EXPECT_EQ(WhyNot(good + Entry("a", "2")), "tokens:2: another token is called a, too");
  EXPECT_EQ(WhyNot(good + Entry("b", "1")), "tokens:2: token b has a sha256 that a has already");
  EXPECT_EQ(WhyNot("token { name: \"a b\" }"),
            "tokens:1: name \"a b\" is not 1 to 64 letters, digits, '.', '_' or '-'");
  EXPECT_EQ(
      WhyNot("token { name: \"" + HexOf("a") + "\" sha256: \"?\" }"),
      "tokens:1: a name of 64 characters holds 32 hexadecimal digits in a row: a hash belongs "
      "in sha256, names are shown in logs; it is not repeated here");
  EXPECT_EQ(WhyNot("token { name: \"a\" }"), "tokens:1: token a has 0 of sha256, expected 1 to 8");
  EXPECT_EQ(WhyNot("\ntoken { name: \"a\" sha256: \"5ecret\" }"),
            "tokens:2: token a: a sha256 of 6 characters is not 64 hexadecimal digits");
  std::string hashes;
  for (int i = 0; i < 8; ++i) hashes += fmt::format(" sha256: \"{}\"", HexOf(std::to_string(i)));
  EXPECT_EQ(WhyNot("token { name: \"a\"" + hashes + " }"), "");
  EXPECT_EQ(WhyNot(Entry("a", "9", hashes)), "tokens:1: token a has 9 of sha256, expected 1 to 8");
  EXPECT_EQ(WhyNot(Entry("a", "1", "max_cells: -1")),
            "tokens:1: token a: max_cells is -1, expected 0 or more");
  EXPECT_EQ(WhyNot(Entry("a", "1", "share_percent: 101")),
            "tokens:1: token a: share_percent is 101, expected 0 to 100");
  EXPECT_EQ(WhyNot(Entry("a", "1", "requests_per_second: nan")),
            "tokens:1: token a: requests_per_second is nan, expected 0 or 0.001 to 1000000000");
  EXPECT_EQ(WhyNot(Entry("a", "1", "models: \"\"")),
            "tokens:1: token a: a model's name is empty; leave `models` out for every one");
  EXPECT_EQ(WhyNot(Entry("a", "1", "max_request: 1")).substr(0, 9), "tokens:1:");
  EXPECT_EQ(WhyNot("\ntoken { sha256: " + HexOf("a") + " }"),
            "tokens:2:17: this is no entry of tokens; what stands there is not repeated here");
}

class TokenTableTest : public ::testing::Test {
 protected:
  void Write(const std::string& text) const { ReplaceFile(file_, text); }
  std::string NameOf(const TokenTable& table, const std::string& authorization) const {
    const auto found = table.Find(authorization);
    return found.ok() ? (*found)->name() : std::string(found.status().message());
  }
  const std::string file_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TokenTableTest, ATokenIsKnownByItsHashAndNothingElseIs) {
  Write(Entry("search", "tok en") + Entry("batch", "t2"));
  const auto opened = TokenTable::Open(file_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  const TokenTable& table = **opened;
  EXPECT_EQ(NameOf(table, "Bearer tok en"), "search");
  EXPECT_EQ(NameOf(table, "bearer  t2 "), "batch");
  EXPECT_EQ(NameOf(table, ""),
            "the call brings no token: authorization: Bearer TOKEN is expected (--tokens)");
  for (const char* malformed : {"Bearer", "Bearer ", "t2", "Basic t2", "Bearert2"}) {
    EXPECT_EQ(NameOf(table, malformed), "its authorization is no Bearer TOKEN (--tokens)");
  }
  for (const std::string& unknown : {std::string("t3"), std::string("T2"), HexOf("t2")}) {
    EXPECT_EQ(NameOf(table, "Bearer " + unknown), "its token is not known (--tokens)");
  }
  EXPECT_EQ(NameOf(table, "Bearer " + std::string(5000, 't')),
            "its authorization is no Bearer TOKEN (--tokens)");
  EXPECT_EQ(table.unauthenticated(Unauthenticated::kMissing), 1);
  EXPECT_EQ(table.unauthenticated(Unauthenticated::kMalformed), 6);
  EXPECT_EQ(table.unauthenticated(Unauthenticated::kUnknown), 3);
}

TEST_F(TokenTableTest, AChangedFileIsTakenAndABrokenOneIsNot) {
  Write(Entry("search", "old"));
  const auto opened = TokenTable::Open(file_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  TokenTable& table = **opened;
  const auto before = *table.Find("Bearer old");
  table.Look();
  EXPECT_EQ(table.taken(), 0);
  Write(Entry("search", "new") + Entry("batch", "b"));
  table.Look();
  EXPECT_EQ(table.taken(), 1);
  EXPECT_EQ(NameOf(table, "Bearer new"), "search");
  EXPECT_EQ(NameOf(table, "Bearer old"), "its token is not known (--tokens)");
  EXPECT_EQ(&before->party(), &(*table.Find("Bearer new"))->party()) << "it goes by its name";
  Write(Entry("search", "newer") + "token {");
  table.Look();
  table.Look();
  EXPECT_EQ(table.files_refused(), 1);
  EXPECT_EQ(NameOf(table, "Bearer new"), "search");
  std::filesystem::remove(file_);
  table.Look();
  table.Look();
  EXPECT_EQ(table.files_refused(), 2);
  EXPECT_EQ(NameOf(table, "Bearer b"), "batch");
}

TEST_F(TokenTableTest, BoundsThatAreChangedAreInForceAtOnceAndWhatWasOwedAtAnotherRateIsForgotten) {
  constexpr int64_t kNow = 100'000'000'000;
  Write(Entry("batch", "b", "max_requests: 1 requests_per_second: 1"));
  const auto opened = TokenTable::Open(file_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  TokenTable& table = **opened;
  std::optional<int32_t> pushback;
  const auto take = [&](int64_t requests) {
    return (*table.Find("Bearer b"))->TakeRequests(requests, kNow, pushback).ok();
  };
  EXPECT_TRUE(take(5000));
  EXPECT_FALSE(take(1)) << "for an hour and more";
  Admission admission({});
  Ticket ticket;
  Refusal refusal;
  const auto admits = [&](int64_t requests) {
    const Parties of = {.client = &(*table.Find("Bearer b"))->party()};
    return admission.Admit({requests, 0, 0}, kNow, ticket, refusal, of);
  };
  EXPECT_FALSE(admits(2));
  Write(Entry("batch", "b", "max_requests: 2 requests_per_second: 1"));
  table.Look();
  EXPECT_FALSE(take(1)) << "the rate is the same";
  EXPECT_TRUE(admits(2));
  Write(Entry("batch", "b", "max_requests: 2 requests_per_second: 1000"));
  table.Look();
  EXPECT_TRUE(take(1));
}

TEST_F(TokenTableTest, AFileThatIsGoneASecondTimeIsSaidASecondTime) {
  Write(Entry("search", "s"));
  const auto opened = TokenTable::Open(file_);
  ASSERT_TRUE(opened.ok()) << opened.status();
  TokenTable& table = **opened;
  for (int time = 1; time <= 2; ++time) {
    std::filesystem::remove(file_);
    table.Look();
    table.Look();
    EXPECT_EQ(table.files_refused(), time);
    Write(Entry("search", "s"));
    table.Look();
  }
  EXPECT_EQ(table.taken(), 0) << "what is back is what was in force";
  EXPECT_EQ(NameOf(table, "Bearer s"), "search");
}

TEST_F(TokenTableTest, AFileThatCannotBeUsedAtTheStartIsNamed) {
  EXPECT_EQ(TokenTable::Open(file_ + "-missing").status().message().substr(0, 9), "--tokens ");
  Write("token { name: \"a\" }");
  EXPECT_EQ(std::string(TokenTable::Open(file_).status().message()),
            "--tokens " + file_ + ":1: token a has 0 of sha256, expected 1 to 8");
}

}  // namespace
}  // namespace cellbatch
