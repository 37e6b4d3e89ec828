#include "server/control/folder_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace cellbatch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
namespace fs = std::filesystem;

class FolderWatchTest : public testing::Test {
 protected:
  FolderWatchTest() {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void Write(const std::string& file, const std::string& text) const {
    const fs::path path = root_ + "/" + file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void WriteModel(const std::string& name) const {
    Write(name + "/config.textproto", "config");
    Write(name + "/1/weights.safetensors", "weights");
  }
  // "a b-": a changed, b is gone.
  std::vector<std::string> Look() {
    const auto news = watch_.Look();
    EXPECT_TRUE(news.ok()) << news.status();
    std::vector<std::string> told;
    if (!news.ok()) return told;
    for (const FolderNews& one : *news) told.push_back(one.name + (one.gone ? "-" : ""));
    return told;
  }

  const std::string root_ = testing::TempDir() + "/watched";
  FolderWatch watch_{root_};
};

TEST_F(FolderWatchTest, WhatIsThereAtTheBeginningIsNoNews) {
  WriteModel("a");
  watch_.Begin();
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, WhatIsBeingWrittenIsToldOfOnceItLooksTheSameTwice) {
  watch_.Begin();
  WriteModel("a");
  EXPECT_THAT(Look(), IsEmpty());
  for (const char* more : {"weights, some", "weights, some more", "weights, all of them"}) {
    Write("a/1/weights.safetensors", more);
    EXPECT_THAT(Look(), IsEmpty()) << more;
  }
  EXPECT_THAT(Look(), ElementsAre("a"));
  EXPECT_THAT(Look(), IsEmpty()) << "it has been told of";
}

TEST_F(FolderWatchTest, AnotherFileOfTheSameSizeIsAChange) {
  WriteModel("a");
  watch_.Begin();
  Write("weights", "WEIGHTS");
  fs::rename(root_ + "/weights", root_ + "/a/1/weights.safetensors");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
}

TEST_F(FolderWatchTest, OfTheVersionsTheHighestIsLookedAt) {
  WriteModel("a");
  watch_.Begin();
  Write("a/2/weights.safetensors", "new");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
  Write("a/1/weights.safetensors", "old, and longer");
  Write("a/2/policy.textproto", "has its own way");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
  fs::remove_all(root_ + "/a/2");  // back to the one before
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
}

TEST_F(FolderWatchTest, AFolderIsGoneWhenItIsMissedTwice) {
  WriteModel("a");
  WriteModel("b");
  watch_.Begin();
  fs::rename(root_ + "/a", root_ + "-a");
  fs::remove_all(root_ + "/b");
  EXPECT_THAT(Look(), IsEmpty());
  fs::rename(root_ + "-a", root_ + "/a");  // the same one, for a moment elsewhere
  EXPECT_THAT(Look(), ElementsAre("b-"));
  EXPECT_THAT(Look(), IsEmpty());
  WriteModel("b");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("b"));
}

TEST_F(FolderWatchTest, WhatIsToBeToldAgainIsToldAgain) {
  WriteModel("a");
  WriteModel("b");
  watch_.Begin();
  watch_.TellAgain("a");
  watch_.TellAgain("nobody");
  EXPECT_THAT(Look(), ElementsAre("a"));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, WhereTheRootCannotBeReadNothingIsGone) {
  WriteModel("a");
  watch_.Begin();
  fs::rename(root_, root_ + "-away");
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = watch_.Look().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(root_));
  }
  fs::rename(root_ + "-away", root_);
  EXPECT_THAT(Look(), IsEmpty());
}

// Of every folder of a root that may be listed and not searched; a ring of links is one for root as well.
TEST_F(FolderWatchTest, WhatTheSystemCannotTellOfIsAChangeAndNotGone) {
  WriteModel("a");
  watch_.Begin();
  fs::rename(root_ + "/a", root_ + "-a");
  fs::create_directory_symlink("a", root_ + "/a");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
  EXPECT_THAT(Look(), IsEmpty());
  fs::remove(root_ + "/a");
  fs::rename(root_ + "-a", root_ + "/a");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
}

TEST_F(FolderWatchTest, FoldersThatLeadInACircleAreLookedAtUpToABound) {
  WriteModel("a");
  for (int i = 0; i < 6; ++i) {
    fs::create_directory_symlink(".", root_ + "/a/1/" + std::to_string(i));
  }
  const std::string look = LookOf(root_ + "/a");
  EXPECT_EQ(LookOf(root_ + "/a"), look);
  const auto lines = std::count(look.begin(), look.end(), '\n');
  EXPECT_GT(lines, 1000);
  EXPECT_LE(lines, kMostWatchedEntries);
}

TEST_F(FolderWatchTest, AnEmptyFolderIsNoNews) {
  watch_.Begin();
  fs::create_directories(root_ + "/a/1");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_EQ(LookOf(root_ + "/a"), "");
}

// As where it is removed while it is looked at.
TEST_F(FolderWatchTest, AFolderThatIsNotThereLooksLikeAnEmptyOne) {
  EXPECT_EQ(LookOf(root_ + "/a"), "");
}

}  // namespace
}  // namespace cellbatch
