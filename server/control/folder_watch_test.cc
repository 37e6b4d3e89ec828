#include "server/control/folder_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>

#include "tests/testing/few_files.h"

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class FolderWatchTest : public ::testing::Test {
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

  const std::string root_ = ::testing::TempDir() + "/watched";
  FolderWatch watch_{root_};
};

TEST_F(FolderWatchTest, WhatIsThereAtTheBeginningIsNoNews) {
  WriteModel("a");
  const auto there = watch_.Begin();
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_THAT(*there, ElementsAre("a")) << "who asks loads these, and no others";
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, WhatIsBeingWrittenIsToldOfOnceItLooksTheSameTwice) {
  watch_.Begin().IgnoreError();
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
  watch_.Begin().IgnoreError();
  Write("weights", "WEIGHTS");
  fs::rename(root_ + "/weights", root_ + "/a/1/weights.safetensors");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
}

TEST_F(FolderWatchTest, OfTheVersionsTheHighestIsLookedAt) {
  WriteModel("a");
  watch_.Begin().IgnoreError();
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
  watch_.Begin().IgnoreError();
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
  watch_.Begin().IgnoreError();
  watch_.TellAgain("a");
  watch_.TellAgain("nobody");
  EXPECT_THAT(Look(), ElementsAre("a"));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, WhereTheRootCannotBeReadNothingIsGone) {
  WriteModel("a");
  watch_.Begin().IgnoreError();
  fs::rename(root_, root_ + "-away");
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = watch_.Look().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(root_));
  }
  fs::rename(root_ + "-away", root_);
  EXPECT_THAT(Look(), IsEmpty());
}

// Of every folder of a root that may be listed and not searched; a ring of links is one for root as well.
TEST_F(FolderWatchTest, WhatTheSystemCannotTellOfIsAChangeAndNotGone) {
  WriteModel("a");
  watch_.Begin().IgnoreError();
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
  const std::string look = LookOf(root_ + "/a").files;
  EXPECT_EQ(LookOf(root_ + "/a").files, look);
  const auto lines = std::count(look.begin(), look.end(), '\n');
  EXPECT_GT(lines, 1000);
  EXPECT_LE(lines, kMostWatchedEntries);
}

TEST_F(FolderWatchTest, AnEmptyFolderIsNoNews) {
  watch_.Begin().IgnoreError();
  fs::create_directories(root_ + "/a/1");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_EQ(LookOf(root_ + "/a"), FolderLook());
}

// As where it is removed while it is looked at.
TEST_F(FolderWatchTest, AFolderThatIsNotThereLooksLikeAnEmptyOne) {
  EXPECT_EQ(LookOf(root_ + "/a"), FolderLook());
}

TEST_F(FolderWatchTest, AFolderThatCannotBeReadIsNewsWhereItIsNew) {
  watch_.Begin().IgnoreError();
  fs::create_directory_symlink("a", root_ + "/a");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
  EXPECT_THAT(Look(), IsEmpty());
}

TEST_F(FolderWatchTest, WhereFilesAreShortNothingIsNews) {
  WriteModel("a");
  watch_.Begin().IgnoreError();
  for (const int left : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      std::optional<testing::FewFiles> few(left);
      const auto news = watch_.Look();
      const FolderLook look = LookOf(root_ + "/a");
      few.reset();
      EXPECT_EQ(news.ok(), left == 1) << news.status();
      EXPECT_THAT(news.value_or(std::vector<FolderNews>()), IsEmpty());
      EXPECT_EQ(look.seen, left == 1);
    }
  }
  Write("a/1/weights.safetensors", "others");
  EXPECT_THAT(Look(), IsEmpty());
  EXPECT_THAT(Look(), ElementsAre("a"));
}

// A served model takes over its policies by itself, and is not loaded again because somebody else may read it.
TEST_F(FolderWatchTest, WhatALoadMayHaveFailedByBesideIsToldOfWhereItFailed) {
  WriteModel("a");
  watch_.Begin().IgnoreError();
  int changes = 0;
  const auto change_policy = [&] { Write("a/1/policy.textproto", std::string(++changes, 'p')); };
  const auto change_rights = [&] {
    const auto rights = ++changes % 2 == 0 ? fs::perms::owner_all : fs::perms::owner_read;
    fs::permissions(root_ + "/a/1/weights.safetensors", rights);
  };
  for (const std::function<void()>& change :
       {std::function<void()>(change_policy), std::function<void()>(change_rights)}) {
    change();
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_THAT(Look(), IsEmpty()) << "it serves";
    watch_.TellAgain("a");
    EXPECT_THAT(Look(), ElementsAre("a"));
    watch_.Failed("a");
    watch_.Failed("nobody");
    EXPECT_THAT(Look(), IsEmpty()) << "what it failed by is as it was";
    change();
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_THAT(Look(), ElementsAre("a"));
    change();
    EXPECT_THAT(Look(), IsEmpty());
    EXPECT_THAT(Look(), IsEmpty()) << "the load that it was told of for did not fail";
  }
}

}  // namespace
}  // namespace cellbatch
