#include "cells/whole_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace cellbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;
namespace fs = std::filesystem;

class WholeFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  static std::string Read(const std::string& file) {
    std::ostringstream text;
    text << std::ifstream(file).rdbuf();
    return text.str();
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  static mode_t ModeOf(const std::string& file) {
    struct stat info = {};
    EXPECT_EQ(stat(file.c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  const std::string folder_ = ::testing::TempDir() + "/whole_file_test";
  const std::string file_ = folder_ + "/policy.textproto";
};

TEST_F(WholeFileTest, OfManyThatWriteOneFileEachIsWholeAndNoneFails) {
  constexpr int kWriters = 4, kTimes = 200;
  const auto text = [](int writer) {
    return std::string(1000 * static_cast<size_t>(writer + 1), static_cast<char>('a' + writer));
  };
  ASSERT_FALSE(WriteWholeFile(file_, text(0)));
  std::atomic<int> failed = 0, mixed = 0;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < kTimes; ++i) {
        if (WriteWholeFile(file_, text(writer))) ++failed;
        const std::string seen = Read(file_);
        if (seen.empty() || seen != text(seen.front() - 'a')) ++mixed;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(mixed, 0);
  EXPECT_THAT(Names(), ElementsAre("policy.textproto")) << "nothing is left beside it";
}

TEST_F(WholeFileTest, NothingOfItIsSeenBeforeItIsPublishedNorEverIfItIsNot) {
  ASSERT_FALSE(WriteWholeFile(file_, "before"));
  {
    WholeFile file(file_);
    file.Append("half ");
    EXPECT_THAT(Names(), UnorderedElementsAre("policy.textproto", ".partial.policy.textproto.0"));
    EXPECT_EQ(Read(file_), "before");
  }
  EXPECT_THAT(Names(), ElementsAre("policy.textproto"));
  EXPECT_EQ(Read(file_), "before");
  WholeFile file(file_);
  file.Append("all ");
  file.Append("");
  file.Append("of it");
  EXPECT_FALSE(file.Publish());
  EXPECT_EQ(Read(file_), "all of it");
}

TEST_F(WholeFileTest, WhatADeadOneLeftIsInNobodysWay) {
  std::ofstream(folder_ + "/.partial.policy.textproto.0") << "half of a f";
  ASSERT_FALSE(WriteWholeFile(file_, "kind: FSM"));
  EXPECT_EQ(Read(file_), "kind: FSM");
}

TEST_F(WholeFileTest, ANameWithoutAFolderIsOfTheFolderOneIsIn) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  EXPECT_FALSE(WriteWholeFile("policy.textproto", "here"));
  fs::current_path(before);
  EXPECT_EQ(Read(file_), "here");
  EXPECT_THAT(Names(), ElementsAre("policy.textproto"));
}

TEST_F(WholeFileTest, ItsUsersMaskSaysWhoReadsItOrAllDo) {
  const mode_t before = umask(0027);
  const bool wrong = static_cast<bool>(WriteWholeFile(file_, "ours"));
  WholeFile file(folder_ + "/shared");
  file.LetAllRead();
  const bool shared_wrong = static_cast<bool>(file.Publish());
  umask(before);
  EXPECT_FALSE(wrong || shared_wrong);
  EXPECT_EQ(ModeOf(file_), 0640u);
  EXPECT_EQ(ModeOf(folder_ + "/shared"), 0644u);
}

TEST_F(WholeFileTest, ALinkStaysWhatItIs) {
  std::ofstream(folder_ + "/real") << "before";
  for (const char* leads_to : {"real", "yet to be"}) {
    fs::remove(file_);
    fs::create_symlink(leads_to, file_);
    ASSERT_FALSE(WriteWholeFile(file_, "after"));
    EXPECT_TRUE(fs::is_symlink(file_));
    EXPECT_EQ(Read(folder_ + "/" + leads_to), "after");
  }
}

TEST_F(WholeFileTest, APipeIsReplacedThoughNobodyReadsIt) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  ASSERT_FALSE(WriteWholeFile(file_, "kind: FSM"));
  EXPECT_EQ(Read(file_), "kind: FSM");
}

TEST_F(WholeFileTest, WhyItCannotBeWrittenIsTold) {
  EXPECT_EQ(WriteWholeFile(folder_, "text"), std::errc::is_a_directory);
  EXPECT_EQ(WriteWholeFile(folder_ + "/no/file", "text"), std::errc::no_such_file_or_directory);
  fs::create_symlink("policy.textproto", file_);
  EXPECT_EQ(WriteWholeFile(file_, "text"), std::errc::too_many_symbolic_link_levels);
  EXPECT_THAT(Names(), ElementsAre("policy.textproto"));
}

// A place that is taken after it was looked at: a folder that holds something.
TEST_F(WholeFileTest, WhatCannotTakeItsPlaceIsGone) {
  WholeFile file(file_);
  file.Append("text");
  fs::create_directories(file_ + "/in the way");
  EXPECT_EQ(file.Publish(), std::errc::is_a_directory);
  EXPECT_EQ(file.Publish(), std::errc::is_a_directory) << "the first error stays";
}

TEST_F(WholeFileTest, WhereTheDiskIsFullWhatWasThereStaysAndNothingIsLeftBeside) {
  ASSERT_FALSE(WriteWholeFile(file_, "before"));
  for (const size_t bytes : {size_t{100}, size_t{1} << 20}) {
    struct rlimit before = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto ignored = signal(SIGXFSZ, SIG_IGN);
    struct rlimit tight = before;
    tight.rlim_cur = 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const std::error_code written = WriteWholeFile(file_, std::string(bytes, 'x'));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, ignored);
    EXPECT_EQ(written, std::errc::file_too_large);
    EXPECT_EQ(Read(file_), "before") << bytes;
    EXPECT_THAT(Names(), ElementsAre("policy.textproto")) << bytes;
  }
}

}  // namespace
}  // namespace cellbatch
