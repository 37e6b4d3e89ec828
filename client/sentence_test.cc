#include "client/sentence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SentenceTest, PunctuationIsCutOffAndAbbreviationsAreNot) {
  EXPECT_THAT(WordsOf("Angela Merkel visited Paris."),
              ElementsAre("Angela", "Merkel", "visited", "Paris", "."));
  EXPECT_THAT(WordsOf("Mr. Smith (of the U.S. Navy), didn't see \"King Kong\"!"),
              ElementsAre("Mr.", "Smith", "(", "of", "the", "U.S.", "Navy", ")", ",", "did", "n't",
                          "see", "\"", "King", "Kong", "\"", "!"));
  EXPECT_THAT(WordsOf("They left the U.S."), ElementsAre("They", "left", "the", "U.S."));
  EXPECT_THAT(WordsOf("Howe's Brigade, it's said, ran..."),
              ElementsAre("Howe", "'s", "Brigade", ",", "it", "'s", "said", ",", "ran..."));
  EXPECT_THAT(WordsOf("“Ja”, said Böll."), ElementsAre("“", "Ja", "”", ",", "said", "Böll", "."));
}

TEST(SentenceTest, AFullStopIsCutOffTheLastWordAloneAndTheLongestPieceFirst) {
  EXPECT_THAT(WordsOf("No. 5 is e.g. here."), ElementsAre("No.", "5", "is", "e.g.", "here", "."));
  EXPECT_THAT(WordsOf("``They've'' (('left'))"),
              ElementsAre("``", "They", "'ve", "''", "(", "(", "'", "left", "'", ")", ")"));
  EXPECT_THAT(WordsOf("."), ElementsAre("."));
  EXPECT_THAT(WordsOf("''"), ElementsAre("'", "'"));
}

TEST(SentenceTest, ATextThatIsCutStaysAsItIs) {
  EXPECT_THAT(WordsOf("Howe 's Brigade ( \" the \" IV Corps ) did n't . "),
              ElementsAre("Howe", "'s", "Brigade", "(", "\"", "the", "\"", "IV", "Corps", ")",
                          "did", "n't", "."));
  EXPECT_THAT(WordsOf(" \t a\n b "), ElementsAre("a", "b"));
  EXPECT_THAT(WordsOf(" \n"), IsEmpty());
  EXPECT_THAT(WordsOf("\"\"\" ))) ... '"),
              ElementsAre("\"", "\"", "\"", ")", ")", ")", "...", "'"));
}

TEST(SentenceTest, LabelsStandBelowTheirWordsAlsoWhereCharactersHaveManyBytes) {
  EXPECT_EQ(ToText({{"Böll", "visited", "A", "."}, {"I-PER", "O", "I-LOC", "O"}}),
            "Böll   visited  A      .\n"
            "I-PER  O        I-LOC  O\n");
  EXPECT_EQ(ToText({{}, {}}), "");
}

TEST(SentenceTest, ALongSentenceTakesSeveralLines) {
  EXPECT_EQ(ToText({{"aaaa", "bbbb", "cccc"}, {"O", "O", "O"}}, 10),
            "aaaa  bbbb\nO     O\n\ncccc\nO\n");
  EXPECT_EQ(ToText({{"aaaa", "bbbb"}, {"O", "O"}}, 9), "aaaa\nO\n\nbbbb\nO\n");
  EXPECT_EQ(ToText({{"üüüü", "bbbb"}, {"O", "O"}}, 10), "üüüü  bbbb\nO     O\n");
  EXPECT_EQ(ToText({{"longer", "b"}, {"O", "O"}}, 3), "longer\nO\n\nb\nO\n");
}

}  // namespace
}  // namespace cellbatch
