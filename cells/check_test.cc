#include "cells/check.h"

#include <gtest/gtest.h>

namespace cellbatch {
namespace {

TEST(CheckTest, ABrokenPromiseNamesThePlaceAndThePromise) {
  EXPECT_DEATH(Check(1 + 1 == 3, "arithmetic holds"),
               "check_test.cc:.*check failed: arithmetic holds");
}

TEST(CheckTest, AKeptPromiseCostsNothingAndSaysNothing) {
  testing::internal::CaptureStderr();
  Check(1 + 1 == 2, "arithmetic holds");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(CheckTest, OnlyTheGivenPartOfAnUnterminatedTextIsPrinted) {
  const std::string_view text("row 7 is shared", 5);
  EXPECT_DEATH(Check(false, text), "check failed: row 7\n");
}

}  // namespace
}  // namespace cellbatch
