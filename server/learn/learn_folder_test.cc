#include "server/learn/learn_folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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

using testing::HasSubstr;
namespace fs = std::filesystem;

class LearnFolderTest : public ::testing::Test {
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
  int Files() const {
    int files = 0;
    for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder_)) ++files;
    return files;
  }
  const std::string folder_ = testing::TempDir() + "/learn_folder_test";
  const std::string file_ = folder_ + "/policy.textproto";
};

TEST_F(LearnFolderTest, OfManyThatWriteOneFileEachIsWholeAndNoneFails) {
  constexpr int kWriters = 4, kTimes = 200;
  const auto text = [](int writer) {
    return std::string(1000 * static_cast<size_t>(writer + 1), static_cast<char>('a' + writer));
  };
  ASSERT_TRUE(WriteWhole(file_, text(0)).ok());
  std::atomic<int> failed = 0, mixed = 0;
  std::vector<std::thread> writers;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int i = 0; i < kTimes; ++i) {
        if (!WriteWhole(file_, text(writer)).ok()) ++failed;
        const std::string seen = Read(file_);
        if (seen.empty() || seen != text(seen.front() - 'a')) ++mixed;
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(mixed, 0);
  EXPECT_EQ(Files(), 1) << "nothing is left beside it";
}

TEST_F(LearnFolderTest, WhatADeadOneLeftIsInNobodysWay) {
  std::ofstream(file_ + ".new0") << "half of a f";
  ASSERT_TRUE(WriteWhole(file_, "kind: FSM").ok());
  EXPECT_EQ(Read(file_), "kind: FSM");
}

TEST_F(LearnFolderTest, ALinkStaysWhatItIs) {
  std::ofstream(folder_ + "/real") << "before";
  fs::create_symlink("real", file_);
  ASSERT_TRUE(WriteWhole(file_, "after").ok());
  EXPECT_TRUE(fs::is_symlink(file_));
  EXPECT_EQ(Read(folder_ + "/real"), "after");
}

// As --curve /dev/stderr. Not a device of the machine: a program that is wrong here, run as root, would take it away.
TEST_F(LearnFolderTest, WhatIsNoFileIsWrittenToWhereItIs) {
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  const int reader = open(file_.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(WriteWhole(file_, "curve").ok());
  ASSERT_TRUE(fs::is_fifo(file_));
  std::string seen(5, ' ');
  EXPECT_EQ(read(reader, seen.data(), seen.size()), 5);
  EXPECT_EQ(seen, "curve");
  close(reader);
  EXPECT_EQ(Files(), 1) << "nothing is left beside it";
}

TEST_F(LearnFolderTest, WhatCannotBeWrittenIsNamed) {
  EXPECT_THAT(std::string(WriteWhole(folder_, "text").message()),
              HasSubstr("learn_folder_test cannot be written: Is a directory"));
  EXPECT_THAT(std::string(WriteWhole(folder_ + "/no/file", "text").message()),
              HasSubstr("no/file cannot be written: No such file or directory"));
  EXPECT_EQ(Files(), 0);
}

// A disk that is full: less than a buffer is noticed where the file is closed, more where it is written.
TEST_F(LearnFolderTest, WhereTheDiskIsFullWhatWasThereStaysAndNothingIsLeftBeside) {
  ASSERT_TRUE(WriteWhole(file_, "before").ok());
  for (const size_t bytes : {size_t{100}, size_t{1} << 20}) {
    const std::string text(bytes, 'x');
    EXPECT_EQ(std::string(WriteWhole("/dev/full", text).message()),
              "/dev/full cannot be written: No space left on device");
    struct rlimit before = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto ignored = signal(SIGXFSZ, SIG_IGN);
    struct rlimit tight = before;
    tight.rlim_cur = 10;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const absl::Status written = WriteWhole(file_, text);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, ignored);
    EXPECT_EQ(std::string(written.message()), file_ + " cannot be written: File too large");
    EXPECT_EQ(Read(file_), "before") << bytes;
    EXPECT_EQ(Files(), 1) << bytes;
  }
}

}  // namespace
}  // namespace cellbatch
