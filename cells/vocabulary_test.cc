#include "cells/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

std::string WhyNot(std::string text) {
  const auto made = Vocabulary::Create(std::move(text));
  EXPECT_FALSE(made.ok());
  return made.ok() ? "" : std::string(made.status().message());
}

TEST(VocabularyTest, ALinesNumberFromZeroIsItsId) {
  const auto words = Vocabulary::Create("the\nParis\nparis\nMöwe\n");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ((*words)->size(), 4);
  EXPECT_EQ((*words)->Find("the"), 0);
  EXPECT_EQ((*words)->Find("Paris"), 1);
  EXPECT_EQ((*words)->Find("paris"), 2);
  EXPECT_EQ((*words)->Find("Möwe"), 3);
  EXPECT_EQ((*words)->word(3), "Möwe");
  EXPECT_EQ((*words)->word(-1), "");
  EXPECT_EQ((*words)->word(4), "");
}

TEST(VocabularyTest, OnlyWholeWordsAreFound) {
  const auto words = Vocabulary::Create("the\nParis");
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ((*words)->Find("Paris"), 1) << "the last line needs no line break";
  for (const char* other : {"", "th", "them", "THE", "the ", "Paris\n"}) {
    EXPECT_EQ((*words)->Find(other), std::nullopt) << other;
  }
}

TEST(VocabularyTest, WhatIsNoListOfWordsIsRefusedByItsLine) {
  EXPECT_THAT(WhyNot(""), HasSubstr("no entries"));
  EXPECT_THAT(WhyNot("a\n\nb\n"), HasSubstr("line 2: is empty"));
  EXPECT_THAT(WhyNot("\n"), HasSubstr("line 1: is empty"));
  EXPECT_THAT(WhyNot("a\nb\na\n"), HasSubstr("line 3: \"a\" is there already, in line 1"));
  EXPECT_THAT(WhyNot("\xef\xbb\xbf"
                     "a\nb\n"),
              HasSubstr("line 1: begins with a byte order mark"));
  EXPECT_THAT(WhyNot("a\r\nb\r\n"), HasSubstr("line 1: has the control character 0x0d at byte 1"));
  EXPECT_THAT(WhyNot(std::string("a\nb\0c", 5)),
              HasSubstr("line 2: has the control character 0x00"));
  EXPECT_THAT(WhyNot("a\n" + std::string(kMaxVocabularyWordBytes + 1, 'x')),
              HasSubstr("line 2: has 1025 bytes, the most is 1024"));
  EXPECT_THAT(WhyNot("a\x7f\n"), HasSubstr("line 1: has the control character 0x7f at byte 1"));
}

TEST(VocabularyTest, AWordMayBeAsLongAsThatAndHoldBlanks) {
  const std::string longest(kMaxVocabularyWordBytes, 'x');
  const auto words = Vocabulary::Create("New York\n" + longest);
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ((*words)->Find("New York"), 0);
  EXPECT_EQ((*words)->Find(longest), 1);
  EXPECT_EQ((*words)->longest(), kMaxVocabularyWordBytes);
}

}  // namespace
}  // namespace cellbatch
