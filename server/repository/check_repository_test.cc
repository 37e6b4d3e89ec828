#include "server/repository/check_repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/testing/gru_folder.h"

namespace cellbatch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

class CheckRepositoryTest : public testing::Test {
 protected:
  CheckRepositoryTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }

  const std::string root_ = testing::TempDir() + "/checked_repository";
};

TEST_F(CheckRepositoryTest, EveryModelIsReportedWithAllItsProblems) {
  WriteGruFolder(root_, "good", 3);
  auto checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  ASSERT_EQ(checked->size(), 1u);
  EXPECT_THAT((*checked)[0].versions, ElementsAre(3));
  EXPECT_THAT((*checked)[0].problems, testing::IsEmpty());
  EXPECT_EQ(DescribeCheck(*checked).problems, "");

  WriteGruFolder(root_, "bad", 1);
  std::ofstream(root_ + "/bad/config.textproto") << "name: \"worse\"\n";
  fs::create_directories(root_ + "/empty");
  checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  const CheckReport report = DescribeCheck(*checked);
  EXPECT_EQ(report.problems,
            "model \"bad\": config.textproto:1: name is \"worse\", the folder is \"bad\"\n"
            "model \"bad\": config.textproto: no unfolder, such as chain { .. }\n"
            "model \"empty\": " +
                root_ + "/empty: no version in it, such as 1/weights.safetensors\n");
  EXPECT_EQ(report.report,
            "model \"good\" version 3: OK, 1 cell type, 120 parameters, X [-1, 4] -> OUTPUT [4]\n"
            "3 models: 1 OK, 2 with 3 problems\n");
  EXPECT_FALSE(CheckRepository(root_ + "/nowhere", LoaderLimits()).ok());
}

TEST_F(CheckRepositoryTest, WhereNothingCanWaitItIsSaidWhatItWouldTake) {
  WriteGruFolder(root_, "a", 1);
  std::ofstream(root_ + "/a/config.textproto", std::ios::app) << "defer: ON\n";
  const auto checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT(
      (*checked)[0].problems,
      ElementsAre(testing::MatchesRegex(
          "config.textproto:[0-9]+: defer is ON: each cell type feeds something recurrent, or "
          "none does, and none could be taken apart with the same bits .its products share "
          "weights, or a parameter alone is computed with on both sides.")));
}

TEST_F(CheckRepositoryTest, APolicyThatCannotBeUsedIsSaidWhereTheModelIsServedAllTheSame) {
  WriteGruFolder(root_, "a", 1);
  std::ofstream(root_ + "/a/config.textproto", std::ios::app)
      << "policy { kind: LEARNED else_cellular: true }\n";
  std::ofstream(root_ + "/a/1/policy.textproto") << "kind: FSM\nstates { re";
  const auto checked = CheckRepository(root_, LoaderLimits());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_THAT((*checked)[0].problems, testing::IsEmpty());
  EXPECT_THAT(DescribeCheck(*checked).report,
              HasSubstr("-> OUTPUT [4], policy cellular in place of one that cannot be used: "
                        "1/policy.textproto:2:"));
}

TEST_F(CheckRepositoryTest, WhatServesAModelOtherwiseThanUsualIsInItsLine) {
  WriteGruFolder(root_, "a", 1);
  std::ofstream(root_ + "/a/config.textproto", std::ios::app)
      << "policy { kind: AGENDA } join { whole_graphs { most: 8 } }\n";
  const std::string usual = "-> OUTPUT [4], policy agenda, join whole_graphs of 8";
  for (const DeviceKinds& kinds : {DeviceKinds{.cpu = true, .gpu = false}, DeviceKinds()}) {
    const auto checked = CheckRepository(root_, {.devices = kinds});
    ASSERT_TRUE(checked.ok()) << checked.status();
    EXPECT_THAT(DescribeCheck(*checked).report,
                HasSubstr(usual + (kinds.both() ? ", lives on GPU\n" : "\n")));
  }
}

TEST_F(CheckRepositoryTest, EachVersionTakesAPlaceAndOneThatIsWrongTakesNone) {
  for (const int version : {1, 2}) WriteGruFolder(root_, "a", version);
  std::ofstream(root_ + "/a/config.textproto", std::ios::app) << "version_policy { all {} }\n";
  for (const char* name : {"b", "c", "d"}) WriteGruFolder(root_, name, 1);
  std::ofstream(root_ + "/b/config.textproto") << "?";
  const auto checked = CheckRepository(root_, LoaderLimits(), 3);
  ASSERT_TRUE(checked.ok()) << checked.status();
  const CheckReport report = DescribeCheck(*checked);
  EXPECT_THAT(report.report, HasSubstr("model \"a\" versions 1, 2: OK"));
  EXPECT_THAT(report.report, HasSubstr("model \"c\" version 1: OK"));
  EXPECT_THAT(report.report, HasSubstr("4 models: 2 OK, 2 with 2 problems\n"));
  EXPECT_THAT(report.problems, HasSubstr("model \"d\": 3 models are served, the most is 3"));
}

}  // namespace
}  // namespace cellbatch
