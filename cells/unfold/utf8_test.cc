#include "cells/unfold/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace cellbatch {
namespace {

// As Unicode defines it: as few bytes as hold the number.
std::string Encoded(uint32_t code) {
  const auto byte = [](uint32_t value) { return static_cast<char>(value); };
  const auto rest = [&](int shift) { return byte(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xc0 | code >> 6), rest(0)};
  if (code < 0x10000) return {byte(0xe0 | code >> 12), rest(6), rest(0)};
  return {byte(0xf0 | code >> 18), rest(12), rest(6), rest(0)};
}

TEST(Utf8Test, EveryCharacterHasItsBytesWhateverFollowsAndNoPartOfItIsOne) {
  for (uint32_t code = 0; code < 0x110000; ++code) {
    const bool surrogate = code >= 0xd800 && code < 0xe000;
    const std::string text = Encoded(code);
    ASSERT_EQ(CharacterBytes(text), surrogate ? 0 : text.size()) << code;
    ASSERT_EQ(CharacterBytes(text + "\xff"), surrogate ? 0 : text.size()) << code;
    ASSERT_EQ(IsUtf8("a" + text + "b"), !surrogate) << code;
    if (text.size() == 1) continue;
    const std::string_view whole = text;  // what a view ends before lies there all the same
    ASSERT_EQ(CharacterBytes(whole.substr(0, whole.size() - 1)), 0u) << code;
    ASSERT_FALSE(IsUtf8(whole.substr(1))) << code;
  }
  EXPECT_TRUE(IsUtf8(""));
}

// Of all that begins like a character, as many are some as there are characters: none has two forms, and none lies beyond the
// last.
TEST(Utf8Test, NothingElseIsACharacter) {
  size_t found[5] = {};
  for (uint32_t bytes = 0; bytes < 0x1000000; ++bytes) {
    const std::string text = {static_cast<char>(bytes >> 16), static_cast<char>(bytes >> 8),
                              static_cast<char>(bytes)};
    const size_t size = CharacterBytes(text);
    ASSERT_LE(size, 3u) << bytes;
    ++found[size];
    // Four bytes: every last one, where the three may begin such a character.
    if ((bytes >> 16) < 0xf0 || (bytes & 0xc0c0) != 0x8080) continue;
    for (int last = 0; last < 256; ++last) {
      found[4] += CharacterBytes(text + static_cast<char>(last)) == 4 ? 1 : 0;
    }
  }
  EXPECT_EQ(found[1], size_t{0x80} << 16);
  EXPECT_EQ(found[2], size_t{0x800 - 0x80} << 8);
  EXPECT_EQ(found[3], size_t{0x10000 - 0x800 - 0x800}) << "surrogates are none";
  EXPECT_EQ(found[4], size_t{0x110000 - 0x10000});
}

}  // namespace
}  // namespace cellbatch
