#include "client/token_entry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace cellbatch {
namespace {

// The entry is appended to a file that the server takes whole or not at all.
TEST(TokenEntryTest, ANameThatNoServerTakesIsRefusedBeforeATokenIsDrawn) {
  const std::string file = ::testing::TempDir() + "/drawn.token";
  for (const std::string& name :
       {std::string("a b"), std::string("a\"b"), std::string("a\nb"), std::string("\xc3\xa9"),
        std::string(65, 'x'), std::string(32, 'f'), std::string()}) {
    const auto entry = DrawToken(name, file);
    EXPECT_EQ(std::string(entry.status().message()),
              "--name=" + name +
                  ": expected 1 to 64 letters, digits, '.', '_' or '-', and not 32 hexadecimal "
                  "digits in a row");
    EXPECT_FALSE(std::filesystem::exists(file)) << name;
    std::filesystem::remove(file);
  }
  const auto entry = DrawToken("search.eu-1_" + std::string(52, 'x'), file);
  EXPECT_TRUE(entry.ok()) << entry.status();
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST(TokenEntryTest, TheFileHasTheTokenAloneAndTheEntryItsHash) {
  const std::string file = ::testing::TempDir() + "/another.token";
  std::filesystem::remove(file);
  const auto entry = DrawToken("search", file);
  ASSERT_TRUE(entry.ok()) << entry.status();
  std::stringstream read;
  read << std::ifstream(file).rdbuf();
  const std::string line = read.str(), token = line.substr(0, 64);
  EXPECT_EQ(line, token + "\n");
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(*entry, "token {\n  name: \"search\"\n  sha256: \"" + HashInHex(token) + "\"\n}\n");
  EXPECT_EQ(HashInHex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(file).permissions(), perms::owner_read | perms::owner_write)
      << "nobody else's to read";
  EXPECT_EQ(std::string(DrawToken("search", file).status().message()),
            "--token-file=" + file + ": cannot be made: File exists");
  std::stringstream again;
  again << std::ifstream(file).rdbuf();
  EXPECT_EQ(again.str(), line) << "a token that is in use is not lost";
}

}  // namespace
}  // namespace cellbatch
