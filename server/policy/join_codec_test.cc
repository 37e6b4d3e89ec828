#include "server/policy/join_codec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace cellbatch {
namespace {

using testing::HasSubstr;

constexpr char kPlace[] = "config.textproto:7";

disk::ModelDescription Config(const std::string& text) {
  disk::ModelDescription config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

// What is read, for people; or what is wrong.
std::string Read(const std::string& text) {
  const absl::StatusOr<JoinSpec> join = ReadJoin(Config(text), kPlace);
  return join.ok() ? Name(*join) : std::string(join.status().message());
}

TEST(JoinCodecTest, EveryWayOfGraphBatchingIsAFewWords) {
  EXPECT_EQ(Read(""), "cellular");
  EXPECT_EQ(Read("join { cellular {} }"), "cellular");
  EXPECT_EQ(Read("tree {} join { whole_graphs { most: 64 leave_together: true } }"),
            "whole_graphs of 64, left together");
  EXPECT_EQ(Read("chain {} join { whole_graphs { most: 64 padding: TO_THE_LONGEST } }"),
            "whole_graphs of 64, padded to the longest");
  EXPECT_EQ(Read("chain {} join { whole_graphs { most: 8 bucket_width: 10 padding: TO_THE_BUCKET "
                 "leave_together: true } }"),
            "whole_graphs of 8, buckets of 10, padded to the bucket, left together");
  EXPECT_EQ(Read("encoder_decoder {} join { whole_graphs { most: 8 bucket_width: 10 } }"),
            "whole_graphs of 8, buckets of 10");
}

TEST(JoinCodecTest, WhatIsWrittenReadsAsTheSame) {
  using Padding = GraphBatching::Padding;
  for (const GraphBatching& batching :
       {GraphBatching{}, GraphBatching{.padding = Padding::kLongest},
        GraphBatching{.padding = Padding::kBucket, .bucket_width = 10, .leave_together = true}}) {
    const JoinSpec spec{.whole_graphs = 7, .batching = batching};
    const absl::StatusOr<JoinSpec> read = ParseJoin(ToJoinChoice(spec), kPlace);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(Name(*read), Name(spec));
  }
  EXPECT_EQ(Name(*ParseJoin(ToJoinChoice({}), kPlace)), "cellular");
}

TEST(JoinCodecTest, NumbersOutOfBoundsAreNamed) {
  for (const char* most : {"0", "-1", "4097"}) {
    EXPECT_EQ(Read(std::string("join { whole_graphs { most: ") + most + " } }"),
              std::string("config.textproto:7: join.whole_graphs.most is ") + most +
                  ", allowed are 1 to 4096");
  }
  EXPECT_EQ(Read("chain {} join { whole_graphs { most: 4096 bucket_width: 4096 } }"),
            "whole_graphs of 4096, buckets of 4096");
  EXPECT_THAT(Read("chain {} join { whole_graphs { most: 1 bucket_width: 4097 } }"),
              HasSubstr("bucket_width is 4097, allowed are 0 to 4096"));
  EXPECT_THAT(Read("chain {} join { whole_graphs { most: 1 bucket_width: -1 } }"),
              HasSubstr("bucket_width is -1, allowed are 0 to 4096"));
  EXPECT_THAT(Read("chain {} join { whole_graphs { most: 1 padding: TO_THE_BUCKET } }"),
              HasSubstr("padding is TO_THE_BUCKET, and there is no bucket_width"));
}

TEST(JoinCodecTest, WhatIsNoSequenceIsNeitherPaddedNorSortedByLength) {
  for (const char* unfolder : {"tree", "lattice", "dag", "library", "encoder_decoder"}) {
    EXPECT_EQ(Read(std::string(unfolder) +
                   " {} join { whole_graphs { most: 4 padding: TO_THE_LONGEST } }"),
              std::string("config.textproto:7: join.whole_graphs.padding is TO_THE_LONGEST: only a "
                          "chain's requests are sequences of one length, and the model has a ") +
                  unfolder);
  }
  EXPECT_THAT(
      Read("tree {} join { whole_graphs { most: 4 bucket_width: 10 } }"),
      HasSubstr("join.whole_graphs.bucket_width is 10: only sequences are sorted by length, "
                "and the model has a tree"));
  EXPECT_THAT(Read("chain {} granularity: OPERATOR "
                   "join { whole_graphs { most: 4 padding: TO_THE_LONGEST } }"),
              HasSubstr("with granularity OPERATOR there are no chains"));
}

TEST(JoinCodecTest, PaddedSequencesAreRunByAlgorithmOne) {
  JoinSpec join{.whole_graphs = 8};
  EXPECT_TRUE(CheckJoin(join, PolicyKind::kDepth, kPlace).ok());
  join.batching.padding = GraphBatching::Padding::kLongest;
  EXPECT_TRUE(CheckJoin(join, PolicyKind::kCellular, kPlace).ok());
  EXPECT_THAT(std::string(CheckJoin(join, PolicyKind::kDepth, kPlace).message()),
              HasSubstr("config.textproto:7: join.whole_graphs.padding: the model's policy is "));
}

}  // namespace
}  // namespace cellbatch
