#include "client/flags.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

struct Values {
  std::string url = "here";
  double rate = 1.5;
  int64_t seed = 7;
  bool json = false;
};

Flags MakeFlags(Values& values) {
  Flags flags("program", "Does things.");
  flags.Add("url", &values.url, "HOST:PORT", "Where.");
  flags.Add("rate", &values.rate, "NUMBER", "How fast.");
  flags.Add("seed", &values.seed, "N", "Which dice.");
  flags.Add("json", &values.json, "", "In JSON.");
  return flags;
}

TEST(FlagsTest, BothFormsAreReadAndWordsKeepTheirOrder) {
  Values values;
  Flags flags = MakeFlags(values);
  const auto words =
      flags.Parse({"a", "--url", "there", "--rate=2.5", "b", "--json", "--seed=-1", "--", "--c"});
  ASSERT_TRUE(words.ok()) << words.status();
  EXPECT_EQ(*words, (std::vector<std::string>{"a", "b", "--c"}));
  EXPECT_EQ(values.url, "there");
  EXPECT_EQ(values.rate, 2.5);
  EXPECT_EQ(values.seed, -1);
  EXPECT_TRUE(values.json);
  EXPECT_EQ(flags.given(), (std::set<std::string>{"url", "rate", "json", "seed"}));
  EXPECT_EQ(*flags.Parse({"-", "-5", ""}), (std::vector<std::string>{"-", "-5", ""}));
}

TEST(FlagsTest, AFlagThatIsNotGivenKeepsItsDefault) {
  Values values;
  Flags flags = MakeFlags(values);
  ASSERT_TRUE(flags.Parse({"--json=false"}).ok());
  EXPECT_EQ(values.url, "here");
  EXPECT_EQ(values.seed, 7);
  EXPECT_FALSE(values.json);
}

TEST(FlagsTest, WhatIsWrongIsNamed) {
  Values values;
  Flags flags = MakeFlags(values);
  const auto message = [&](std::vector<std::string> arguments) {
    return std::string(flags.Parse(arguments).status().message());
  };
  EXPECT_EQ(message({"--speed=3"}), "no flag --speed; --help lists them");
  EXPECT_EQ(message({"--rate=fast"}), "--rate=fast: wants a finite number");
  for (const char* value : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_EQ(message({"--rate", value}),
              "--rate=" + std::string(value) + ": wants a finite number");
  }
  EXPECT_EQ(message({"--seed=1.5"}), "--seed=1.5: wants a whole number of 64 bits");
  EXPECT_EQ(message({"--seed=9223372036854775808"}),
            "--seed=9223372036854775808: wants a whole number of 64 bits");
  EXPECT_EQ(message({"--json=maybe"}), "--json=maybe: wants true or false");
  EXPECT_EQ(message({"--url"}), "--url lacks its HOST:PORT");
}

TEST(FlagsTest, AFlagIsNoValueOfTheOneBeforeItUnlessThatIsSaid) {
  Values values;
  Flags flags = MakeFlags(values);
  EXPECT_EQ(std::string(flags.Parse({"--url", "--seed=3"}).status().message()),
            "--url lacks its HOST:PORT: --seed=3 is a flag (--url=--seed=3 if it is meant)");
  EXPECT_EQ(std::string(flags.Parse({"--url", "--json"}).status().message()),
            "--url lacks its HOST:PORT: --json is a flag (--url=--json if it is meant)");
  ASSERT_TRUE(flags.Parse({"--url=--json"}).ok());
  EXPECT_EQ(values.url, "--json");
  ASSERT_TRUE(flags.Parse({"--url", "--no flag of ours", "--seed", "-5"}).ok());
  EXPECT_EQ(values.url, "--no flag of ours");
  EXPECT_EQ(values.seed, -5);
}

TEST(FlagsTest, HelpShowsEveryFlagWithItsDefault) {
  Values values;
  Flags flags = MakeFlags(values);
  ASSERT_TRUE(flags.Parse({"--rate=9", "--help"}).ok());
  EXPECT_TRUE(flags.help_wanted());
  EXPECT_EQ(flags.Help(),
            "Does things.\n\nusage: program [flags]\n\n"
            "  --url=HOST:PORT  Where. (default: here)\n"
            "  --rate=NUMBER    How fast. (default: 1.5)\n"
            "  --seed=N         Which dice. (default: 7)\n"
            "  --json           In JSON. (default: false)\n");
}

}  // namespace
}  // namespace cellbatch
