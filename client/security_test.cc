#include "client/security.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace cellbatch {
namespace {

class SecurityTest : public ::testing::Test {
 protected:
  std::string File(const std::string& text) const {
    std::ofstream(file_, std::ios::binary) << text;
    return file_;
  }
  static std::string WhyNot(const SecurityFlags& flags) {
    return std::string(flags.Read().status().message());
  }

  const std::string file_ = ::testing::TempDir() + "/a_file", folder_ = ::testing::TempDir();
};

TEST_F(SecurityTest, FilesAreReadAndATokenHasNoEndOfLine) {
  SecurityFlags flags = {.tls = true, .ca = File("tok-en.1~\r\n"), .token_file = file_};
  const auto read = flags.Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->roots, "tok-en.1~\r\n");
  EXPECT_EQ(read->token, "tok-en.1~");
}

TEST_F(SecurityTest, WhatIsNoFileOrHoldsNothingIsSaidByItsFlag) {
  EXPECT_EQ(WhyNot({.tls = true, .ca = folder_}), "--ca=" + folder_ + ": cannot be read");
  EXPECT_EQ(WhyNot({.token_file = folder_}), "--token-file=" + folder_ + ": cannot be read");
  EXPECT_EQ(WhyNot({.token_file = file_ + "-missing"}),
            "--token-file=" + file_ + "-missing: cannot be read");
  EXPECT_EQ(WhyNot({.tls = true, .certificate = File(""), .key = file_}),
            "--cert=" + file_ + ": is empty");
  EXPECT_EQ(WhyNot({.token_file = File("\n\n")}), "--token-file=" + file_ + ": is empty");
}

TEST_F(SecurityTest, FlagsOfTlsWantTlsAndACertificateItsKey) {
  const std::string any = File("pem");
  for (const SecurityFlags& flags :
       {SecurityFlags{.ca = any}, SecurityFlags{.certificate = any}, SecurityFlags{.key = any}}) {
    EXPECT_EQ(WhyNot(flags), "--ca, --cert and --key want --tls");
  }
  EXPECT_EQ(WhyNot({.tls = true, .certificate = any}), "--cert and --key want each other");
  EXPECT_EQ(WhyNot({.tls = true, .key = any}), "--cert and --key want each other");
  const auto read = SecurityFlags{.tls = true, .certificate = any, .key = any}.Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->tls);
  EXPECT_EQ(read->certificate + read->key, "pempem");
}

TEST_F(SecurityTest, AFileIsReadWhole) {
  const std::string text(100'000, 'r');
  const auto read = SecurityFlags{.tls = true, .ca = File(text)}.Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->roots, text);
}

// gRPC ends the process that hands it such a token.
TEST_F(SecurityTest, AFileThatHoldsMoreThanATokenIsRefusedAndNotRepeated) {
  for (const std::string& text : {std::string("to\nken"), std::string("to\0ken", 6),
                                  std::string("to\xc3\xa9"), std::string("to\tken")}) {
    EXPECT_EQ(WhyNot({.token_file = File(text)}),
              "--token-file=" + file_ +
                  ": byte 3 is no printable ASCII character; a token has no others");
  }
}

}  // namespace
}  // namespace cellbatch
