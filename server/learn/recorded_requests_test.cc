// Claims about learning from what a server recorded.
#include "server/learn/recorded_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>

#include "cells/any_cell.h"
#include "server/record/record_codec.h"

namespace cellbatch {
namespace {

using ::testing::HasSubstr;

// A decoder of words over a state.
std::shared_ptr<const Model> Decoder(const std::string& input = "x") {
  const Column h{"h", ElementType::kFp32, 4}, word{"word", ElementType::kInt32, 1};
  auto model = std::make_shared<Model>();
  model->name = "translate";
  model->tables = {{"tokens", {word}}, {"words", {h, word}}};
  CellType type;
  type.id = CellTypeId(0);
  type.name = "decoder";
  type.definition =
      testing::AnyCell("decoder", {{input, {word}}, {"before", {h, word}}}, {h, word}, InputId(1));
  type.in = {TableId(0), TableId(1)};
  type.out = TableId(1);
  model->types.push_back(std::move(type));
  return model;
}

class RecordedRequestsTest : public ::testing::Test {
 protected:
  // Chains capped at 20 words; number i stops after 3 + i of them.
  void Write(int requests, absl::StatusCode code = absl::StatusCode::kOk) {
    std::string bytes;
    AppendEntry(EntryOf(RecordedSetup{}), bytes);
    RecordedLane lane;
    lane.serial = 4;
    lane.model = Decoder();
    AppendEntry(EntryOf(lane), bytes);
    for (int i = 0; i < requests; ++i) {
      RecordedRequest request;
      request.id = static_cast<uint64_t>(i);
      request.serial = 4;
      PieceShape& piece = request.shape.pieces.emplace_back();
      piece.subgraphs = {{.table = 0, .length = 1},
                         {.type = 0,
                          .length = 20,
                          .num_links = 1,
                          .num_returns = 1,
                          .stop_column = 1,
                          .stop_value = 2}};
      piece.links = {{.from = 0}};
      piece.returns = {{.column = 1, .count = 20}};
      AppendEntry(EntryOf(request), bytes);
      RecordedEnd end;
      end.code = code;
      end.stopped_at = {2 + i};
      AppendEntry(EndEntry(request.id, end), bytes);
    }
    std::ofstream(file_, std::ios::binary) << bytes;
  }
  const std::string file_ = ::testing::TempDir() + "/served.record";
};

TEST_F(RecordedRequestsTest, ChainsAreAsLongAsTheyRanAndNotAsTheyMight) {
  Write(4);
  EXPECT_TRUE(LooksLikeRecord(file_));
  const auto requests = ReadRecordedRequests(file_, *Decoder(), 100, 1);
  ASSERT_TRUE(requests.ok()) << requests.status();
  ASSERT_EQ(requests->graphs.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(requests->graphs[static_cast<size_t>(i)].size(), 3 + i);
  }
  EXPECT_THAT(requests->source, HasSubstr("4 recorded in served.record"));
}

TEST_F(RecordedRequestsTest, OfManySomeAreDrawnTheSameOnesBySeed) {
  Write(15);
  const auto sizes = [&](uint64_t seed) {
    const auto requests = ReadRecordedRequests(file_, *Decoder(), 6, seed);
    std::vector<int32_t> all;
    for (const TypedGraph& graph : requests->graphs) all.push_back(graph.size());
    return all;
  };
  EXPECT_EQ(sizes(1).size(), 6u);
  EXPECT_EQ(sizes(1), sizes(1));
  EXPECT_NE(sizes(1), sizes(2));
  const std::vector<int32_t> drawn = sizes(1);
  EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end())) << "in the order in which they came";
}

TEST_F(RecordedRequestsTest, WhatFailedAndWhatIsOfOtherCellsIsNotLearnedFrom) {
  Write(5, absl::StatusCode::kCancelled);
  auto none = ReadRecordedRequests(file_, *Decoder(), 100, 1);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("has 0 requests of model \"translate\""));
  Write(5);
  none = ReadRecordedRequests(file_, *Decoder("other"), 100, 1);
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("of 5 in all"));
  std::ofstream(file_) << "12\n7\n";
  EXPECT_FALSE(LooksLikeRecord(file_));
}

}  // namespace
}  // namespace cellbatch
