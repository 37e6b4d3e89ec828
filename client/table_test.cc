#include "client/table.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

TEST(TableTest, TextGoesLeftAndNumbersGoRight) {
  TextTable table({"model", "requests", "p99"});
  table.AddRow({"sentiment", "7", "12.3 ms"});
  table.AddRow({"lm", "1,204", kNothing});
  EXPECT_EQ(table.ToText(),
            "model      requests      p99\n"
            "sentiment         7  12.3 ms\n"
            "lm            1,204        –\n");
}

TEST(TableTest, DurationsHaveThreeDigitsAndAUnitThatFits) {
  EXPECT_EQ(FormatDuration(0), "0 ns");
  EXPECT_EQ(FormatDuration(850), "850 ns");
  EXPECT_EQ(FormatDuration(999.6), "1.00 us");
  EXPECT_EQ(FormatDuration(12345), "12.3 us");
  EXPECT_EQ(FormatDuration(4071000), "4.07 ms");
  EXPECT_EQ(FormatDuration(123.4e6), "123 ms");
  EXPECT_EQ(FormatDuration(12e9), "12.0 s");
  EXPECT_EQ(FormatDuration(12000e9), "12000 s");
}

TEST(TableTest, DigitsAreCountedAfterRounding) {
  EXPECT_EQ(FormatDuration(1.6), "2 ns") << "of nanoseconds there are no parts";
  EXPECT_EQ(FormatDuration(999.4), "999 ns");
  EXPECT_EQ(FormatDuration(9994), "9.99 us");
  EXPECT_EQ(FormatDuration(9996), "10.0 us");
  EXPECT_EQ(FormatDuration(99940), "99.9 us");
  EXPECT_EQ(FormatDuration(99960), "100 us");
  EXPECT_EQ(FormatDuration(-123.4e6), "-123 ms");
}

TEST(TableTest, AColumnIsOfNumbersWhereEveryCellUnderItsHeadLooksLikeOne) {
  TextTable table({"signs", "empty", "mixed", "far"});
  table.AddRow({"-1", "", "1", "1"});
  table.AddRow({"+10", "22", "ü", "longer than its head"});
  EXPECT_EQ(table.ToText(),
            "signs  empty  mixed  far\n"
            "   -1         1      1\n"
            "  +10     22  ü      longer than its head\n");
  EXPECT_EQ(TextTable({"7", "b"}).ToText(), "7  b\n");
  TextTable wide({"long head", "n"});
  wide.AddRow({"ü…x", "1"});
  EXPECT_EQ(wide.ToText(), "long head  n\nü…x        1\n");
}

TEST(TableTest, CountsAreGrouped) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
}

TEST(TableDeathTest, ARowOfAnotherWidthEndsTheProcess) {
  TextTable table({"a", "b"});
  EXPECT_DEATH(table.AddRow({"1"}), "a row of 1 cells under a head of 2");
}

}  // namespace
}  // namespace cellbatch
