#include "loadgen/mix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cellbatch {
namespace {

std::string Error(const std::string& text, const MixEntry& defaults = {}) {
  return std::string(ParseMix(text, defaults).status().message());
}

TEST(MixTest, WhatAnEntryDoesNotSayTheDefaultsDo) {
  MixEntry defaults;
  defaults.many = 4;
  defaults.call = LoadCall::kTyped;
  const auto mix = ParseMix(
      "treelstm, weight=3, data=sst.ptb; nmt,call=decode,many=1,steps=model;\n"
      "lstm,call=infer,many=1,priority=2,timeout-us=500,outputs=OUTPUT+FINAL_H,version=7;",
      defaults);
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ(mix->size(), 3u);
  const MixEntry &tree = (*mix)[0], &nmt = (*mix)[1], &lstm = (*mix)[2];
  EXPECT_EQ(tree.model, "treelstm");
  EXPECT_EQ(tree.weight, 3);
  EXPECT_EQ(tree.data, "sst.ptb");
  EXPECT_EQ(tree.call, LoadCall::kTyped);
  EXPECT_EQ(tree.many, 4);
  EXPECT_EQ(nmt.call, LoadCall::kDecode);
  EXPECT_TRUE(nmt.free_decode);
  EXPECT_EQ(nmt.weight, 1);
  EXPECT_EQ(lstm.priority, 2);
  EXPECT_EQ(lstm.timeout_us, 500);
  EXPECT_EQ(lstm.version, "7");
  EXPECT_EQ(lstm.outputs, (std::vector<std::string>{"OUTPUT", "FINAL_H"}));
}

TEST(MixTest, WhatIsWrongIsNamedByEntryAndField) {
  EXPECT_EQ(Error("a;b,weight=0"), "--mix: entry 2 (b): weight=0: wants a positive number");
  EXPECT_EQ(Error("a,weight=inf"), "--mix: entry 1 (a): weight=inf: wants a positive number");
  EXPECT_EQ(Error("a,weight=1e308;b,weight=1e308"),
            "--mix: entry 1 (a): weight=1e308: wants 1000000000 at most");
  EXPECT_EQ(Error("a,call=stream"),
            "--mix: entry 1 (a): call=stream: wants infer, typed or decode");
  EXPECT_EQ(Error("a,call=typed,many=4097"),
            "--mix: entry 1 (a): many=4097: wants 1 to 4096 inputs a message");
  EXPECT_EQ(
      Error("a,many=2"),
      "--mix: entry 1 (a): many=2: call=infer sends one input a request; many need call=typed");
  EXPECT_EQ(
      Error("a,steps=some"),
      "--mix: entry 1 (a): steps=some: wants data (as many words as the data's target) or model");
  EXPECT_EQ(Error("a,spelled=2"), "--mix: entry 1 (a): spelled=2: wants a share from 0 to 1");
  EXPECT_EQ(Error("a,piece=0"), "--mix: entry 1 (a): piece=0: wants steps of a piece, 1 or more");
  EXPECT_EQ(Error("a,call=decode,piece=2"),
            "--mix: entry 1 (a): piece=2: call=decode reads its source whole");
  EXPECT_EQ(Error("a,piece=2,streams=65537"),
            "--mix: entry 1 (a): streams=65537: wants 1 to 65536 sequences at a time");
  EXPECT_EQ(
      Error("a,streams=8"),
      "--mix: entry 1 (a): streams=8: wants piece=STEPS and call=infer, there are piece=0 and "
      "call=infer");
  EXPECT_EQ(
      Error("a,call=typed,piece=2,streams=8"),
      "--mix: entry 1 (a): streams=8: wants piece=STEPS and call=infer, there are piece=2 and "
      "call=typed");
  EXPECT_EQ(Error("a,piece=2,streams=8"), "");
  EXPECT_EQ(Error("a,priority=-1"),
            "--mix: entry 1 (a): priority=-1: wants a whole number, not negative");
  EXPECT_EQ(Error("a,timeout-us=x"),
            "--mix: entry 1 (a): timeout-us=x: wants microseconds, not negative");
  EXPECT_EQ(Error("a,data=x,lengths=y"),
            "--mix: entry 1 (a): data=x and lengths=y exclude each other");
  EXPECT_EQ(Error("a,call=decode,priority=1"), "");
  EXPECT_EQ(Error("a,call=decode,timeout-us=1"),
            "--mix: entry 1 (a): timeout-us=1: call=decode has no such parameter");
  EXPECT_EQ(Error("a,call=decode,outputs=OUTPUT"),
            "--mix: entry 1 (a): outputs=OUTPUT: call=decode answers in words");
  EXPECT_EQ(Error("a,fast"), "--mix: entry 1 (a): \"fast\" is no FIELD=VALUE");
  EXPECT_NE(Error("a,speed=3").find("speed: no such field; there are version, weight"),
            std::string::npos);
  EXPECT_EQ(Error("weight=3"), "--mix: entry 1 (weight=3): begins with no model's name");
  EXPECT_EQ(Error("a; ,weight=3"), "--mix: entry 2 (): begins with no model's name");
  EXPECT_EQ(Error(" ; "), "--mix: names no model");
  EXPECT_EQ(Error("a,many=0"), "--mix: entry 1 (a): many=0: wants 1 to 4096 inputs a message");
  EXPECT_EQ(Error("a,piece=2,streams=0"),
            "--mix: entry 1 (a): streams=0: wants 1 to 65536 sequences at a time");
  EXPECT_EQ(
      Error("a,call=decode,many=2"),
      "--mix: entry 1 (a): many=2: call=decode sends one input a request; many need call=typed");
}

TEST(MixTest, WhatIsJustWithinItsBoundsIsTaken) {
  const auto mix = ParseMix(
      "a,weight=1000000000,call=typed,many=4096,spelled=0,priority=0,timeout-us=0;;"
      "b,piece=1,streams=65536,spelled=1,data=x=y.ptb",
      {});
  ASSERT_TRUE(mix.ok()) << mix.status();
  ASSERT_EQ(mix->size(), 2u);
  const MixEntry &a = (*mix)[0], &b = (*mix)[1];
  EXPECT_EQ(a.weight, 1e9);
  EXPECT_EQ(a.many, 4096);
  EXPECT_EQ(a.spelled, 0);
  EXPECT_EQ(a.priority, 0);
  EXPECT_EQ(a.timeout_us, 0);
  EXPECT_EQ(b.piece, 1);
  EXPECT_EQ(b.streams, 65536);
  EXPECT_EQ(b.spelled, 1);
  EXPECT_EQ(b.data, "x=y.ptb");
}

std::vector<size_t> Counts(const std::vector<uint32_t>& order, size_t parts) {
  std::vector<size_t> counts(parts, 0);
  for (const uint32_t part : order) {
    ++counts.at(part);
  }
  return counts;
}

TEST(MixOrderTest, SharesAreExactWhateverTheCount) {
  EXPECT_EQ(Counts(MixOrder({3, 1}, 4000, 1), 2), (std::vector<size_t>{3000, 1000}));
  EXPECT_EQ(Counts(MixOrder({1, 1, 1}, 100, 1), 3), (std::vector<size_t>{34, 33, 33}));
  EXPECT_EQ(Counts(MixOrder({5, 3, 2}, 3, 1), 3), (std::vector<size_t>{1, 1, 1}))
      << "of 1.5, 0.9 and 0.6 the largest remainders";
  const std::vector<double> weights = {0.7, 2.5, 0.05, 11};
  const double sum = 14.25;
  for (size_t count = 0; count < 500; ++count) {
    const std::vector<size_t> counts = Counts(MixOrder(weights, count, count), 4);
    size_t all = 0;
    for (size_t i = 0; i < 4; ++i) {
      const double share = static_cast<double>(count) * weights[i] / sum;
      EXPECT_LT(std::abs(static_cast<double>(counts[i]) - share), 1) << count;
      all += counts[i];
    }
    EXPECT_EQ(all, count);
  }
}

TEST(MixOrderTest, TheSeedDecidesTheOrder) {
  EXPECT_EQ(MixOrder({1, 2}, 300, 5), MixOrder({1, 2}, 300, 5));
  EXPECT_NE(MixOrder({1, 2}, 300, 5), MixOrder({1, 2}, 300, 6));
  const auto order = MixOrder({1, 1}, 1000, 5);
  const auto half = Counts({order.begin(), order.begin() + 500}, 2);
  EXPECT_NEAR(static_cast<double>(half[0]), 250, 60) << "the two are shuffled into each other";
}

}  // namespace
}  // namespace cellbatch
