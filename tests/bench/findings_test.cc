#include "tests/bench/findings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace cellbatch {
namespace {

nlohmann::json Written(Report& report) {
  const std::string path = testing::TempDir() + "/findings.json";
  EXPECT_TRUE(report.Finish(path));
  return nlohmann::json::parse(std::ifstream(path));
}

TEST(FindingsTest, WhatTheChildFoundIsTheReports) {
  Report report("findings");
  EXPECT_TRUE(RunInChild(report, [](Findings& to) {
    const Quartiles quartiles{1.0, 2.0, 3.0};
    to.Text("a line\nand another\n");
    to.Fact("peer", "\"quoted\" 1.0");
    to.Figure("with", 2.0, "us", &quartiles);
    to.Figure("without", 4.0, "x");
    return true;
  }));
  const nlohmann::json json = Written(report);
  EXPECT_EQ(json["facts"]["peer"], "\"quoted\" 1.0");
  EXPECT_EQ(json["figures"]["with"]["quartiles"], (nlohmann::json{1.0, 2.0, 3.0}));
  EXPECT_EQ(json["figures"]["without"]["value"], 4.0);
  EXPECT_FALSE(json["figures"]["without"].contains("quartiles"));
}

TEST(FindingsTest, AChildThatSaysFalseOrDiesKeepsWhatItToldBefore) {
  Report report("findings");
  EXPECT_FALSE(RunInChild(report, [](Findings& to) {
    to.Figure("before saying false", 1.0, "x");
    return false;
  }));
  EXPECT_FALSE(RunInChild(report, [](Findings& to) {
    to.Figure("before dying", 1.0, "x");
    std::abort();
    return true;
  }));
  const nlohmann::json json = Written(report);
  EXPECT_TRUE(json["figures"].contains("before saying false"));
  EXPECT_TRUE(json["figures"].contains("before dying"));
}

}  // namespace
}  // namespace cellbatch
