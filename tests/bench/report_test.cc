#include "tests/bench/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace cellbatch {
namespace {

TEST(QuartilesTest, AreInterpolatedAndOrderDoesNotMatter) {
  const Quartiles q = QuartilesOf({5, 1, 4, 2, 3});
  EXPECT_EQ(q.low, 2);
  EXPECT_EQ(q.median, 3);
  EXPECT_EQ(q.high, 4);
  EXPECT_EQ(QuartilesOf({1, 2}).median, 1.5);
  EXPECT_EQ(QuartilesOf({}).median, 0);
}

TEST(TableTest, NumbersStandToTheRightAndWordsToTheLeft) {
  Table table({"name", "µs"});
  table.Add({"a", "1.5"});
  table.Add({"longer", "12.5"});
  EXPECT_EQ(table.ToString(), "name      µs\na        1.5\nlonger  12.5\n");
}

TEST(ReportTest, FiguresComeLastAsLinesAndAsJson) {
  const std::string path = testing::TempDir() + "/report_test.json";
  testing::internal::CaptureStdout();
  Report report("example");
  report.Figure("example.ratio", 1.25, "x");
  report.Fact("library", "9.9");
  EXPECT_TRUE(report.Finish(path));
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_TRUE(text.ends_with("library: 9.9\n\nfigure example.ratio = 1.25 x\n")) << text;
  std::ifstream file(path);
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["figures"]["example.ratio"]["value"], 1.25);
  EXPECT_EQ(json["facts"]["library"], "9.9");
}

TEST(ReportTest, AFileThatCannotBeWrittenIsReported) {
  EXPECT_FALSE(Report("example").Finish("/nonexistent/folder/file.json"));
}

}  // namespace
}  // namespace cellbatch
