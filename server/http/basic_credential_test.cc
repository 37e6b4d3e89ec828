#include "server/http/basic_credential.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace cellbatch {
namespace {

std::string Basic(const std::string& text) { return "Basic " + absl::Base64Escape(text); }

TEST(BasicCredentialTest, ThePasswordIsTheTokenWhateverTheName) {
  // RFC 7617's own example.
  EXPECT_EQ(BearerOfBasic("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), "Bearer open sesame");
  EXPECT_EQ(BearerOfBasic(Basic("someone:s3arch")), "Bearer s3arch");
  EXPECT_EQ(BearerOfBasic(Basic(":s3arch")), "Bearer s3arch");
  EXPECT_EQ(BearerOfBasic(Basic("a:b:c")), "Bearer b:c") << "a name has no colon";
  EXPECT_EQ(BearerOfBasic("bAsIC " + absl::Base64Escape("a:b") + " "), "Bearer b");
}

TEST(BasicCredentialTest, WhatIsNotWrittenSoIsNone) {
  for (const std::string& bad :
       {std::string("Basic "), std::string("Basic ???"), std::string("Basic s3arch"),
        Basic("s3arch"), Basic("someone:"), std::string("Bearer s3arch"), std::string()}) {
    EXPECT_EQ(BearerOfBasic(bad), "") << bad;
  }
  EXPECT_TRUE(IsBasic("Basic ???"));
  EXPECT_FALSE(IsBasic("Bearer x"));
  EXPECT_FALSE(IsBasic("Basic"));
  EXPECT_FALSE(IsBasic(""));
}

}  // namespace
}  // namespace cellbatch
