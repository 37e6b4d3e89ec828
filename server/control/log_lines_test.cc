#include "server/control/log_lines.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"

namespace cellbatch {
namespace {

using testing::EndsWith;

// What the log writes, as it would be written to stderr.
class LogLinesTest : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "of the test", std::make_shared<spdlog::sinks::ostream_sink_st>(written_)));
  }
  void TearDown() override { spdlog::set_default_logger(before_); }

  std::string Line(LogFormat format, const std::string& message) {
    SetLogFormat(format);
    written_.str("");
    spdlog::warn("{}", message);
    return written_.str();
  }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream written_;
};

// A folder in the repository may be called anything.
TEST_F(LogLinesTest, OneMessageIsOneLineWhateverStandsInIt) {
  const std::string evil = "model a\nb: \x1b[31m \"\\\t\x7f \u00e8 \xff";
  EXPECT_THAT(Line(LogFormat::kText, evil),
              EndsWith(" warning model a\\x0ab: \\x1b[31m \"\\\\x09\\x7f \u00e8 \xff\n"));
  const std::string json = Line(LogFormat::kJson, evil);
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_EQ(nlohmann::json::parse(json)["message"],
            "model a\nb: \x1b[31m \"\\\t\x7f \u00e8 \ufffd");
  EXPECT_THAT(Line(LogFormat::kText, "as ever"), EndsWith(" warning as ever\n"));
}

// stderr is a pipe that nobody reads.
class FullStderrTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
    read_ = ends[0], write_ = ends[1];
    before_ = dup(STDERR_FILENO);
    ASSERT_GE(dup2(write_, STDERR_FILENO), 0);
  }
  void TearDown() override {
    dup2(before_, STDERR_FILENO);
    spdlog::set_default_logger(logger_);
    for (const int file : {read_, write_, before_}) close(file);
  }
  // Whoever writes waits from now on.
  void Fill() const {
    ASSERT_EQ(fcntl(write_, F_SETFL, O_NONBLOCK), 0);
    const std::string page(4096, '.');
    while (write(write_, page.data(), page.size()) > 0) continue;
    ASSERT_EQ(fcntl(write_, F_SETFL, 0), 0);
  }
  std::string ReadAll() const {
    std::string all;
    char piece[4096];
    for (ssize_t n = 0; (n = read(read_, piece, sizeof(piece))) > 0;) {
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const std::shared_ptr<spdlog::logger> logger_ = spdlog::default_logger();
  int read_ = -1, write_ = -1, before_ = -1;
};

TEST_F(FullStderrTest, NobodyWaitsForIt) {
  SetUpLog("info", LogFormat::kText);
  spdlog::info("first");
  EXPECT_THAT(ReadAll(), EndsWith(" info first\n"));
  Fill();
  for (const char* lost : {"one", "two", "three"}) spdlog::info("{}", lost);
  std::thread whole([] { WriteLine(spdlog::level::warn, "a whole line"); });
  std::string all = ReadAll();
  whole.join();  // it waited for room
  all += ReadAll();
  EXPECT_EQ(all.substr(all.find_first_not_of('.')), "a whole line\n");
  spdlog::info("there is room");
  const std::string said = ReadAll();
  EXPECT_THAT(said,
              testing::HasSubstr(" warning 3 lines of the log are left out: nobody read stderr\n"));
  EXPECT_THAT(said, EndsWith(" info there is room\n"));
  Fill();
  std::thread never([] { WriteLine(spdlog::level::warn, "no room to the end"); });
  HurryLog();
  never.join();
  EXPECT_EQ(ReadAll().find_first_not_of('.'), std::string::npos);
}

TEST_F(FullStderrTest, OnlyWhatIsAskedForIsWrittenAndAsItIs) {
  spdlog::drop_all();
  SetUpLog("error", LogFormatNamed("json"));
  spdlog::warn("less");
  WriteLine(spdlog::level::warn, "less, and whole");
  WriteLine(spdlog::level::err, "whole");
  EXPECT_EQ(ReadAll(), "whole\n");
  spdlog::error("more");
  EXPECT_EQ(nlohmann::json::parse(ReadAll())["message"], "more");
  EXPECT_EQ(LogFormatNamed("text"), LogFormat::kText);
}

// stderr is a terminal.
class UnreadTerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TERM", "xterm", 1);
    reader_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
    ASSERT_GE(reader_, 0);
    ASSERT_EQ(grantpt(reader_), 0);
    ASSERT_EQ(unlockpt(reader_), 0);
    const int terminal = open(ptsname(reader_), O_RDWR | O_NOCTTY);
    ASSERT_GE(terminal, 0);
    before_ = dup(STDERR_FILENO);
    ASSERT_GE(dup2(terminal, STDERR_FILENO), 0);
    close(terminal);
    spdlog::drop_all();
    SetUpLog("info", LogFormat::kText);
  }
  void TearDown() override {
    dup2(before_, STDERR_FILENO);
    spdlog::drop_all();
    SetUpLog("info", LogFormat::kText);  // to stderr as it was
    spdlog::drop_all();
    spdlog::set_default_logger(logger_);
    close(reader_);
    close(before_);
  }
  std::string ReadAll() const {
    std::string all;
    char piece[4096];
    for (ssize_t n = 0; (n = read(reader_, piece, sizeof(piece))) > 0;) {
      all.append(piece, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  const std::shared_ptr<spdlog::logger> logger_ = spdlog::default_logger();
  int reader_ = -1, before_ = -1;
};

TEST_F(UnreadTerminalTest, NobodyWaitsForIt) {
  spdlog::info("first");
  EXPECT_THAT(ReadAll(), EndsWith(" \x1b[32minfo\x1b[m first\r\n"));
  spdlog::warn("second");
  EXPECT_THAT(ReadAll(), EndsWith(" \x1b[33m\x1b[1mwarning\x1b[m second\r\n"));
  spdlog::error("third");
  EXPECT_THAT(ReadAll(), EndsWith(" \x1b[31m\x1b[1merror\x1b[m third\r\n"));
  const std::string long_line(1000, '.');
  for (int i = 0; i < 200; ++i) spdlog::info("{}", long_line);  // more than a terminal keeps
  while (ReadAll() != "") continue;
  spdlog::info("there is room");
  const std::string said = ReadAll();
  EXPECT_THAT(said, testing::HasSubstr(" lines of the log are left out: nobody read stderr\r\n"));
  EXPECT_THAT(said, EndsWith(" there is room\r\n"));
  EXPECT_EQ(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0) << "others write to it, too";
}

}  // namespace
}  // namespace cellbatch
