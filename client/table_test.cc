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
