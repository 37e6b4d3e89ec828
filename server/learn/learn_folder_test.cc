#include "server/learn/learn_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace cellbatch {
namespace {

namespace fs = std::filesystem;

class LearnFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  const std::string folder_ = testing::TempDir() + "/learn_folder_test";
  const std::string file_ = folder_ + "/policy.textproto";
};

TEST_F(LearnFolderTest, WhatIsAFileIsReplaced) {
  for (const char* text : {"before", "after"}) {
    ASSERT_TRUE(WriteWhole(file_, text).ok());
    std::ifstream in(file_);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
  }
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
}

TEST_F(LearnFolderTest, WhatCannotBeWrittenIsNamedWithItsReason) {
  const auto refused = [](const std::string& path, const std::string& text) {
    const absl::Status written = WriteWhole(path, text);
    EXPECT_EQ(written.code(), absl::StatusCode::kInvalidArgument);
    return std::string(written.message());
  };
  EXPECT_EQ(refused(folder_, "text"), folder_ + " cannot be written: Is a directory");
  EXPECT_EQ(refused(folder_ + "/no/file", "text"),
            folder_ + "/no/file cannot be written: No such file or directory");
  // Less than a buffer is noticed where it is closed, more where it is written.
  for (const size_t bytes : {size_t{100}, size_t{1} << 20}) {
    EXPECT_EQ(refused("/dev/full", std::string(bytes, 'x')),
              "/dev/full cannot be written: No space left on device");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace cellbatch
