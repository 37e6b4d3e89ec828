// Damaged Basic credentials: what is read is what a slow decoder of base64 finds behind the first colon; what is written by
// the book is read, and what holds anything else than base64 is not.
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"
#include "server/http/basic_credential.h"
#include "tests/fuzz/fuzz_budget.h"
#include "tests/fuzz/mutator.h"

namespace cellbatch {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

struct Reading {
  bool basic = false;       // it is of that scheme
  bool base64 = true;       // nothing but its letters, padding and space
  bool by_the_book = true;  // RFC 4648, section 4
  std::string text;         // what its letters say
};

Reading Slowly(const std::string& authorization) {
  Reading reading;
  std::string scheme = authorization.substr(0, 6);
  for (char& c : scheme) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  reading.basic = scheme == "basic ";
  if (!reading.basic) return reading;
  std::string bits;
  size_t letters = 0, padding = 0;
  for (const char c : authorization.substr(6)) {
    const size_t value = kAlphabet.find(c);
    if (c == '=' || c == '.') {
      ++padding;
      if (c == '.') reading.by_the_book = false;
    } else if (value == kAlphabet.npos) {
      reading.by_the_book = false;
      if (!absl::ascii_isspace(static_cast<unsigned char>(c))) reading.base64 = false;
    } else {
      if (padding > 0) reading.base64 = false;
      ++letters;
      for (int bit = 5; bit >= 0; --bit) bits += (value >> bit & 1) != 0 ? '1' : '0';
    }
  }
  for (; bits.size() >= 8; bits.erase(0, 8)) {
    int byte = 0;
    for (int i = 0; i < 8; ++i) byte = byte * 2 + (bits[i] - '0');
    reading.text += static_cast<char>(byte);
  }
  if (letters % 4 == 1) reading.base64 = false;
  if (!reading.base64 || (letters + padding) % 4 != 0 || padding > 2) reading.by_the_book = false;
  if (bits.find('1') != bits.npos) reading.by_the_book = false;
  return reading;
}

TEST(BasicCredentialFuzzTest, WhatIsReadIsWhatBase64SaysBehindTheFirstColon) {
  const uint64_t seed = 20261201;
  SCOPED_TRACE(seed);
  Mutator mutator(seed, {"Basic ", "basic", "Bearer ", "=", "==", "Og==", "Og", ":", ".", " ", "\n",
                         "-_", std::string(1, '\0'), "\xff", "AAAA"});
  int64_t accepted = 0, by_the_book = 0;
  FuzzBudget budget(20'000);
  while (budget.Next()) {
    std::string name, token;
    for (uint64_t i = 0, n = mutator.Below(9); i < n; ++i) {
      const auto c = static_cast<char>(mutator.Below(256));
      if (c != ':') name += c;
    }
    for (uint64_t i = 0, n = 1 + mutator.Below(24); i < n; ++i) {
      token += static_cast<char>(mutator.Below(mutator.Below(2) == 0 ? 128 : 256));
    }
    const bool damaged = mutator.Below(4) != 0;
    std::string text =
        (mutator.Below(2) == 0 ? "Basic " : "bASIC ") + absl::Base64Escape(name + ":" + token);
    if (damaged) text = mutator.Mutate(text);
    SCOPED_TRACE(::testing::PrintToString(text));
    const std::string bearer = BearerOfBasic(text);
    const Reading reading = Slowly(text);
    ASSERT_EQ(IsBasic(text), reading.basic);
    if (!damaged) {
      ASSERT_EQ(bearer, "Bearer " + token);
    }
    const size_t colon = reading.text.find(':');
    const bool has_token = colon != std::string::npos && colon + 1 < reading.text.size();
    if (reading.basic && reading.by_the_book && has_token) {
      ++by_the_book;
      ASSERT_NE(bearer, "");
    }
    if (!reading.basic || !reading.base64 || !has_token) {
      ASSERT_EQ(bearer, "");
    }
    if (bearer.empty()) continue;
    ++accepted;
    ASSERT_EQ(bearer, "Bearer " + reading.text.substr(colon + 1));
  }
  EXPECT_GT(by_the_book, budget.cases() / 4);
  EXPECT_GT(accepted, budget.cases() / 4);
  EXPECT_LT(accepted, budget.cases() * 9 / 10);
}

}  // namespace
}  // namespace cellbatch
