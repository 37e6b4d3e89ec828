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
    Begin();
    for (int i = 0; i < requests; ++i) {
      RecordedEnd end;
      end.code = code;
      end.stopped_at = {2 + i};
      Add(Decoding(i), &end);
    }
    End();
  }
  void Begin() {
    bytes_.clear();
    AppendEntry(EntryOf(RecordedSetup{}), bytes_);
    AddLane(4, Decoder());
  }
  void AddLane(uint32_t serial, std::shared_ptr<const Model> model) {
    RecordedLane lane;
    lane.serial = serial;
    lane.model = std::move(model);
    AppendEntry(EntryOf(lane), bytes_);
  }
  static RecordedRequest Decoding(int id) {
    RecordedRequest request;
    request.id = static_cast<uint64_t>(id);
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
    return request;
  }
  // Null: it has not ended.
  void Add(const RecordedRequest& request, const RecordedEnd* end) {
    AppendEntry(EntryOf(request), bytes_);
    for (size_t p = 1; p < request.shape.pieces.size(); ++p) {
      AppendEntry(NextPieceEntry(request.id, request.shape.pieces[p]), bytes_);
    }
    if (end != nullptr) AppendEntry(EndEntry(request.id, *end), bytes_);
  }
  void End() { std::ofstream(file_, std::ios::binary) << bytes_; }
  std::vector<int32_t> Sizes() const {
    const auto model = Decoder();  // requests make graphs of it
    const auto requests = ReadRecordedRequests(file_, *model, 100, 1);
    EXPECT_TRUE(requests.ok()) << requests.status();
    std::vector<int32_t> sizes;
    if (!requests.ok()) return sizes;
    for (const TypedGraph& graph : requests->graphs) sizes.push_back(graph.size());
    for (size_t i = 0; i < sizes.size(); ++i) {  // as it is run, so it is learned from
      int32_t nodes = 0;
      const CellGraph graph = requests->make(static_cast<int32_t>(i), 2);
      for (const Subgraph& s : graph.subgraphs()) nodes += s.type.valid() ? s.length : 0;
      EXPECT_EQ(nodes, sizes[i]) << i;
    }
    return sizes;
  }
  std::string bytes_;
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

// Two chains in a piece, one in the next; a stop beyond a chain, a stop that nobody saw, and a return behind a stop.
TEST_F(RecordedRequestsTest, EveryChainStopsWhereItStoppedAndReturnsWhatItHas) {
  Begin();
  RecordedRequest request = Decoding(0);
  PieceShape& first = request.shape.pieces[0];
  first.subgraphs.push_back(first.subgraphs[1]);
  first.links.push_back({.from = 0});
  first.returns[0] = {.column = 1, .first = 9, .count = 1};
  first.returns.push_back({.column = 1, .first = 0, .count = 20});
  PieceShape second = Decoding(0).shape.pieces[0];
  second.subgraphs.erase(second.subgraphs.begin());
  second.links = {{.from = 0}};
  request.shape.pieces.push_back(second);
  RecordedEnd end;
  end.code = absl::StatusCode::kOk;
  end.stopped_at = {4, 6, 1};
  Add(request, &end);
  request.id = 1;
  end.stopped_at = {-1, 30};
  Add(request, &end);
  End();
  EXPECT_EQ(Sizes(), (std::vector<int32_t>{5 + 7 + 2, 20 + 20 + 20}));
}

TEST_F(RecordedRequestsTest, OnlyWhoEndedWellAndIsOfThisModelIsLearnedFrom) {
  Begin();
  auto other = std::make_shared<Model>(*Decoder());
  other->name = "other";
  AddLane(5, other);
  RecordedEnd end;
  end.code = absl::StatusCode::kOk;
  end.stopped_at = {2};
  Add(Decoding(0), &end);
  Add(Decoding(1), nullptr);
  RecordedRequest of_other = Decoding(2);
  of_other.serial = 5;
  Add(of_other, &end);
  End();
  EXPECT_THAT(std::string(ReadRecordedRequests(file_, *Decoder(), 100, 1).status().message()),
              HasSubstr("has 1 requests of model \"translate\""));
  Add(Decoding(3), &end);
  End();
  EXPECT_EQ(Sizes(), (std::vector<int32_t>{3, 3}));
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
