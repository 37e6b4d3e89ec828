#include "client/token_entry.h"

#include <gtest/gtest.h>

#include <filesystem>
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

}  // namespace
}  // namespace cellbatch
